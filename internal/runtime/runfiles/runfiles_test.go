package runfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/runtime"
)

func files(write map[string]string, remove ...string) runtime.Files {
	f := runtime.Files{Write: map[string][]byte{}, Remove: remove}
	for name, text := range write {
		f.Write[name] = []byte(text)
	}
	return f
}

// Files that are not possible are refused before anything is touched, and each error says why.
func TestHostile(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many[fmt.Sprint("f", i)] = ""
	}
	for want, f := range map[string]runtime.Files{
		`the name ""`:                  files(map[string]string{"": "x"}),
		`the name "."`:                 files(map[string]string{".": "x"}),
		`the name ".."`:                files(nil, ".."),
		`the name "../a"`:              files(map[string]string{"../a": "x"}),
		`the name "/etc/passwd"`:       files(nil, "/etc/passwd"),
		`the name "a/b"`:               files(map[string]string{"a/b": "x"}),
		`the name ".hidden"`:           files(map[string]string{".hidden": "x"}),
		`the name "a\x00b"`:            files(map[string]string{"a\x00b": "x"}),
		`the name "ä"`:                 files(map[string]string{"ä": "x"}),
		`the name "incarnation"`:       files(map[string]string{"incarnation": "7"}),
		`the name "aaaaaaaaaa`:         files(map[string]string{strings.Repeat("a", maxName+1): "x"}),
		"17 names":                     files(many),
		`"a" is both written and rem`:  files(map[string]string{"a": ""}, "a"),
		"8388609 bytes, expected at m": files(map[string]string{"a": strings.Repeat("x", maxBytes), "b": "x"}),
	} {
		d := Dir(filepath.Join(t.TempDir(), "files"))
		err := d.Write("t/a", 1, f)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"t/a"`) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Lstat(string(d)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it was written: %v", want, err)
		}
	}
	d := Dir(t.TempDir())
	for _, name := range []string{"", "..", "../x/calls.json", "/etc/passwd", "incarnation", strings.Repeat("a", 1<<20)} {
		if _, err := d.Read("t/a", 0, name); !errors.Is(err, ErrInvalid) || len(err.Error()) > 500 {
			t.Errorf("%.40q: %.600v", name, err)
		}
	}
}

// Paths of agents lead to directories of their own, below the one of all.
func TestOf(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, path := range []string{
		"", "/", ".", "..", "t/..", "../..", "t/a", "u/a", "t/a\x00", "t/" + strings.Repeat("x", 1<<16), "t/a b", "t/ä",
	} {
		dir := Dir("/files").Of(path)
		if filepath.Dir(dir) != "/files" || len(filepath.Base(dir)) > 60 || seen[dir] != "" {
			t.Errorf("%.20q: %q, which %q has", path, dir, seen[dir])
		}
		seen[dir] = path + "."
	}
}

// What is in the place of a file or directory is not followed, and reported.
func TestLinks(t *testing.T) {
	t.Parallel()
	d, elsewhere := Dir(t.TempDir()), t.TempDir()
	if err := os.Symlink(elsewhere, d.Of("t/a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Write("t/a", 1, files(map[string]string{"a": "x"})); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a directory that is a link: %v", err)
	}
	if all, err := os.ReadDir(elsewhere); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	secret := filepath.Join(elsewhere, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Write("t/b", 1, files(map[string]string{"a": "x"})); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(d.Of("t/b"), "calls.json")); err != nil {
		t.Fatal(err)
	}
	if text, err := d.Read("t/b", 1, "calls.json"); err == nil {
		t.Errorf("a link was followed: %q", text)
	}
	large, err := os.Create(filepath.Join(d.Of("t/b"), "large"))
	if err == nil {
		err = errors.Join(large.Truncate(maxBytes+1), large.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read("t/b", 0, "large"); err == nil || !strings.Contains(err.Error(), "larger than 8388608 bytes") {
		t.Errorf("a large file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(d.Of("t/b"), "order.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Write("t/b", 2, files(map[string]string{"order.json": "x"})); err == nil {
		t.Error("a directory in the place of a file")
	}
	for _, incarnation := range []uint64{1, 2} { // after an error, they are those of no incarnation
		if _, err := d.Read("t/b", incarnation, "a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("incarnation %d: %v", incarnation, err)
		}
	}
}

// Reads find what was written last, of the incarnation that was started last.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp("", "runfiles")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		d := Dir(filepath.Join(tmp, "deep", "files"))
		name, path := rapid.SampledFrom([]string{"order.json", "calls.json", "a-b_c.9"}), rapid.SampledFrom([]string{"t/a", "t/b"})
		model, owner := map[string]map[string]string{"t/a": {}, "t/b": {}}, map[string]uint64{}
		check := func(at, n string, incarnation uint64) {
			want, ok := model[at][n]
			ok = ok && (incarnation == 0 || incarnation == owner[at])
			text, err := d.Read(at, incarnation, n)
			if ok && (err != nil || string(text) != want) || !ok && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s of %s, incarnation %d: %q, %v, want %q, %v", n, at, incarnation, text, err, want, ok)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				at, f := path.Draw(t, "path"), files(nil)
				for _, n := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names") {
					if rapid.Bool().Draw(t, "remove") {
						f.Remove = append(f.Remove, n)
						delete(model[at], n)
					} else {
						f.Write[n] = rapid.SliceOf(rapid.Byte()).Draw(t, "text")
						model[at][n] = string(f.Write[n])
					}
				}
				owner[at] = rapid.Uint64Range(1, 9).Draw(t, "incarnation")
				if err := d.Write(at, owner[at], f); err != nil {
					t.Fatal(err)
				}
			},
			"remove": func(t *rapid.T) {
				at := path.Draw(t, "path")
				if err := d.Remove(at); err != nil {
					t.Fatal(err)
				}
				clear(model[at])
				delete(owner, at)
			},
			"": func(t *rapid.T) {
				for _, at := range slices.Sorted(maps.Keys(model)) {
					for _, n := range []string{"order.json", "calls.json", "a-b_c.9"} {
						check(at, n, 0)
						check(at, n, rapid.Uint64Range(1, 9).Draw(t, "asked"))
					}
				}
			},
		})
	})
}
