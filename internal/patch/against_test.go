package patch

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// verdict judges the result of applying a distorted diff.
type verdict int

const (
	right verdict = iota
	refused
	wrong
)

func (s *sample) verdict(got string, applied bool) verdict {
	switch want := s.file(s.want); {
	case !applied && s.refuse:
		return right
	case !applied:
		return refused
	case s.refuse || got != want:
		return wrong
	}
	return right
}

// apply applies a patch to one text.
func apply(text, patch string) (string, *Report, error) {
	p, err := Parse(patch)
	if err != nil {
		return "", nil, err
	}
	changes, report := p.Plan(func(name string) (*Content, error) {
		if name != "file" {
			return nil, fs.ErrNotExist
		}
		return &Content{Text: text}, nil
	})
	if report.Failed() {
		return "", &report, errors.New(strings.Join(report.Lines(), "\n"))
	}
	for _, c := range changes {
		text = c.New.Text
	}
	return text, &report, nil
}

// gnuPatch applies a diff with GNU patch.
func gnuPatch(t *testing.T, dir, text, diff string) (string, bool) {
	t.Helper()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("patch", "-p1", "--fuzz=3", "--force", "--no-backup-if-mismatch", "-r", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() > 2) {
		t.Fatal(err)
	}
	got, readErr := os.ReadFile(name)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		t.Fatal(readErr)
	}
	return string(got), err == nil
}

// Distorted diffs of real texts are applied to what they mean, or refused, and more often than GNU patch does it.
// None is applied to anything else. Run it with -v for the table.
func TestAgainstPatch(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "patch")
	archive, err := txtar.ParseFile("testdata/texts.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const seeds = 2
	dir := t.TempDir()
	var ours, theirs [3]int
	var table bytes.Buffer
	row := func(name string, a, b [3]int) {
		fmt.Fprintf(&table, "%-28s %5d %5d %5d %8d %5d %5d\n", name, a[0], a[1], a[2], b[0], b[1], b[2])
	}
	fmt.Fprintf(&table, "%-28s %17s %23s\n", "", "coppice patch", "patch --fuzz=3 --force")
	fmt.Fprintf(&table, "%-28s %5s %5s %5s %8s %5s %5s\n", "", "right", "refus", "wrong", "right", "refus", "wrong")
	for _, d := range distortions {
		var our, their [3]int
		for _, f := range archive.Files {
			for seed := range seeds {
				h := fnv.New64a()
				fmt.Fprint(h, d.name, f.Name, seed)
				rng := rand.New(rand.NewPCG(h.Sum64(), 1))
				s := newSample(rng, string(f.Data))
				for tries := 0; !d.do(s); tries++ {
					if s = nil; tries == 100 {
						break
					}
					s = newSample(rng, string(f.Data))
				}
				if s == nil {
					continue
				}
				file, diff := s.file(s.target), s.text()
				got, _, err := apply(file, diff)
				one := s.verdict(got, err == nil)
				text, applied := gnuPatch(t, dir, file, diff)
				other := s.verdict(text, applied)
				our[one]++
				their[other]++
				if one == wrong || testing.Verbose() && one == refused && other == right {
					t.Logf("%s, %s, seed %d: %d, of patch %d: %v\n%s", d.name, f.Name, seed, one, other, err, diff)
				}
				if one == wrong {
					t.Errorf("the diff\n%s\nchanges it to\n%s", diff, unifiedOf(s.file(s.want), got))
				}
			}
		}
		row(d.name, our, their)
		for i := range our {
			ours[i] += our[i]
			theirs[i] += their[i]
		}
	}
	row("all", ours, theirs)
	t.Logf("\n%s", table.String())
	if ours[right] < theirs[right] {
		t.Errorf("%d are right, fewer than the %d of patch", ours[right], theirs[right])
	}
	if n := ours[right] + ours[refused] + ours[wrong]; n < 600 {
		t.Errorf("only %d diffs were tried", n)
	}
}

// unifiedOf shows how two texts differ.
func unifiedOf(want, got string) string {
	s := &sample{old: strings.Split(want, "\n"), new: strings.Split(got, "\n"), numbers: true}
	s.setDiff(2)
	return s.text()
}
