package config

import (
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = goflag.Bool("update", false, "write what the cities in testdata come to")

// cityOf writes a city of testdata into a new directory, with scripts that can be run.
func cityOf(t *testing.T, archive []byte) string {
	t.Helper()
	dir := project(t, string(archive))
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".sh") {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCities loads cities in the form of each public example of Gas City, and
// compares all that they come to with what is written behind them.
func TestCities(t *testing.T) {
	files, err := filepath.Glob("testdata/cities/*.txtar")
	if err != nil || len(files) < 11 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" }); at >= 0 {
				want = string(archive.Files[at].Data)
				archive.Files = archive.Files[:at]
			}
			dir := cityOf(t, txtar.Format(archive))
			l, err := LoadAll(filepath.Join(dir, CityName))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(summary(l), dir, "CITY")
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got); -update writes it\n%s", diff)
			}
			if len(l.Tree.Root.Children) > 0 && len(l.Tree.Orders) == 0 { // orders are files of their own
				checkShown(t, l, filepath.Join(dir, FileName))
			}
		})
	}
}

// summary is what a city comes to, in words.
func summary(l *Loaded) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, n := range l.Notices {
		line("notice: %s", n)
	}
	for _, c := range l.Tree.Root.Children {
		a := c.Agent
		if a == nil {
			a = c.Node.Template
		}
		line("agent %s in %s: %q", a.Name, a.Dir, a.Command)
		if p := a.Pool; p != nil {
			line("  pool %d to %d, %q, names %q", p.Min, p.Max, p.Check, p.Names)
		}
		if len(a.Hooks.Waking.Command) > 0 {
			line("  before: %q", a.Hooks.Waking.Command[2])
		}
		if len(a.Hooks.Start.Command) > 0 {
			line("  after: %q", a.Hooks.Start.Command[2])
		}
		if len(a.DependsOn) > 0 {
			line("  depends on %q", a.DependsOn)
		}
		if a.IdleTimeout > 0 {
			line("  idle %v", a.IdleTimeout)
		}
		if a.Suspended {
			line("  suspended")
		}
		line("  env %v", a.Env)
	}
	for _, o := range l.Tree.Orders {
		what := fmt.Sprintf("%q", o.Command)
		if o.Task != nil {
			what = fmt.Sprintf("task %q for %q", o.Task.Title, o.Task.Pool)
		}
		line("order %s in %s: %s %s", o.Name, o.Dir, what, o.Why)
		for _, g := range o.Gates {
			line("  %v %v%v%q%q", g.Kind, g.Interval, g.Schedule, g.Check, g.On.Types)
		}
		line("  env %v", o.Env)
	}
	return b.String()
}
