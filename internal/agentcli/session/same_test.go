package session

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"pgregory.net/rapid"
)

// Whatever happens to the files, a tree that is kept finds the same as a new one.
func TestSameAsNew(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { checkSameAsNew(t, r) })
}

func checkSameAsNew(t *testing.T, r *rapid.T) {
	base, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		r.Fatal(err)
	}
	defer os.RemoveAll(base)
	v, h := vendors()[rapid.IntRange(0, 3).Draw(r, "command line")], &house{t: t, home: base, dir: "/work/a"}
	ids := []string{one, two, three}
	path := func() (id, name string) {
		id = rapid.SampledFrom(ids).Draw(r, "id")
		name = v.file(h, id)
		place := rapid.SampledFrom([]string{"work", "play"}).Draw(r, "place")
		switch v.cli {
		case agentcli.Codex:
			if place == "play" {
				name = strings.Replace(name, began.Format("2006/01/02"), began.AddDate(0, 0, 1).Format("2006/01/02"), 1)
			}
		default:
			name = strings.Replace(name, "work", place, 1)
		}
		return id, name
	}
	full := func(name string) string { return filepath.Join(base, name) }
	head := func(id string) string { // what a file has is known by its name, for good
		of := id
		if id == three && v.sub != nil {
			of = one
		}
		return v.head(h, id, of, h.dir, began.Add(time.Second))
	}
	actions := map[string]func(){ // errors do not matter: something else is in the way
		"half": func() {
			id, name := path()
			text := head(id)
			appendFile(full(name), text[:len(text)/2])
		},
		"write":  func() { id, name := path(); appendFile(full(name), head(id)) },
		"remove": func() { _, name := path(); os.Remove(full(name)) },
		"move": func() {
			id, from := path()
			to := strings.Replace(v.file(h, id), "work", "play", 1)
			os.MkdirAll(filepath.Dir(full(to)), 0o700)
			if _, err := os.Lstat(full(to)); err != nil {
				os.Rename(full(from), full(to))
			}
		},
		"rename the directory": func() {
			_, from := path()
			_, to := path()
			from, to = filepath.Dir(full(from)), filepath.Dir(full(to))
			if from != to {
				os.RemoveAll(to)
				os.MkdirAll(filepath.Dir(to), 0o700)
				os.Rename(from, to)
			}
		},
		"remove the directory": func() { _, name := path(); os.RemoveAll(filepath.Dir(full(name))) },
		"remove all":           func() { os.RemoveAll(home(v.cli, []string{"HOME=" + base})) },
		"link": func() {
			_, from := path()
			_, to := path()
			os.MkdirAll(filepath.Dir(full(to)), 0o700)
			os.Symlink(full(from), full(to))
		},
		"a directory in place": func() { _, name := path(); os.MkdirAll(full(name), 0o700) },
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range actions {
			if !yield(name) {
				return
			}
		}
	})
	kept := h.tree(v)
	for range rapid.IntRange(1, 8).Draw(r, "steps") {
		actions[rapid.SampledFrom(names).Draw(r, "action")]()
		if rapid.IntRange(0, 3).Draw(r, "age") > 0 {
			h.age()
		}
		got, want := found(kept, v, ids), found(h.tree(v), v, ids)
		if !reflect.DeepEqual(got, want) {
			r.Fatalf("found\n%+v\nand a new tree\n%+v", got, want)
		}
	}
}

// findings are all parts of a tree that followers use.
type findings struct {
	recent  []string
	begun   map[string][]*header
	files   map[string][]string
	partial bool
	of      map[string][]place
}

func found(t *tree, v vendor, ids []string) (all findings) {
	f := Follow(Call{CLI: v.cli, Began: began})
	t.look(true, func(w *walk) {
		x := w.recentSince(began)
		for _, m := range x.recent {
			all.recent = append(all.recent, m.path())
		}
		all.begun, all.files, all.partial, all.of = x.begun, x.files, x.partial, map[string][]place{}
		for _, id := range ids {
			all.of[id] = f.ofSession(w, followed{cli: v.cli, id: id})
		}
	})
	return all
}
