package patch

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

// A diff with right numbers applies exactly, whatever the text is.
func TestExactDiffs(t *testing.T) {
	t.Parallel()
	texts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "b", "", "}", "\tindented", "  blanks ", "-- minus", "++ plus", "@@ -1 +1 @@", "\\ slash", "--- a/x",
		"+++ b/x", "*** End Patch", "```", "<<<<<<< SEARCH", "diff --git a/x b/x", "a line of text", "cr\rinside",
	}), 1, 30)
	rapid.Check(t, func(t *rapid.T) {
		s := &sample{numbers: true, old: texts.Draw(t, "old"), new: texts.Draw(t, "new")}
		if s.setDiff(3); len(s.hunks) == 0 {
			return
		}
		if rapid.Bool().Draw(t, "crlf") {
			s.crlfFile = true
		}
		got, report, err := apply(s.file(s.old), s.text())
		if want := s.file(s.new); err != nil || got != want {
			t.Fatalf("%q becomes %q, want %q: %v %v\n%s", s.old, got, s.new, err, report, s.text())
		}
	})
}

// A search and replace block with the whole text applies exactly.
func TestExactBlocks(t *testing.T) {
	t.Parallel()
	texts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "b", "", "}", "\tindented", "  blanks ", "a line of text",
	}), 1, 30)
	rapid.Check(t, func(t *rapid.T) {
		old, now := texts.Draw(t, "old"), texts.Draw(t, "new")
		from, to := strings.Join(old, "\n")+"\n", strings.Join(now, "\n")+"\n"
		if from == to {
			return
		}
		got, _, err := apply(from, "./file\n<<<<<<< SEARCH\n"+from+"=======\n"+to+">>>>>>> REPLACE\n")
		if err != nil || got != to {
			t.Fatalf("%q, want %q: %v", got, to, err)
		}
	})
}

// A distorted diff of a real text does what it means, or is refused.
func TestDistorted(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/texts.txtar")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := archive.Files[rapid.IntRange(0, len(archive.Files)-1).Draw(t, "file")]
		d := distortions[rapid.IntRange(0, len(distortions)-1).Draw(t, "distortion")]
		s := newSample(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2)), string(f.Data))
		if !d.do(s) {
			return
		}
		got, _, err := apply(s.file(s.target), s.text())
		if s.verdict(got, err == nil) == wrong {
			t.Fatalf("%s: the diff\n%s\nchanges it to\n%s", d.name, s.text(), unifiedOf(s.file(s.want), got))
		}
	})
}

func FuzzPatch(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/cases.txtar")
	if err != nil {
		f.Fatal(err)
	}
	text := ""
	for _, a := range archive.Files {
		switch name := a.Name; {
		case strings.Contains(name, "/in/"):
			text = string(a.Data)
		case strings.HasSuffix(name, "/patch"):
			f.Add(text, string(a.Data))
		}
	}
	f.Fuzz(func(t *testing.T, text, patch string) {
		p, err := Parse(patch)
		if err != nil {
			return
		}
		changes, report := p.Plan(func(name string) (*Content, error) {
			if err := CheckPath(name); err != nil {
				t.Errorf("%q is read", name)
			}
			if strings.Contains(name, "new") {
				return nil, fs.ErrNotExist
			}
			return &Content{Text: text}, nil
		})
		if report.Failed() && len(changes) > 0 {
			t.Error("a patch that fails changes files")
		}
		for _, c := range changes {
			if err := CheckPath(c.Path); err != nil {
				t.Errorf("%q is written", c.Path)
			}
		}
		report.Lines()
	})
}
