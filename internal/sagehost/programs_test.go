package sagehost

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/tools"
)

var discard = slog.New(slog.DiscardHandler)

// files writes files, each given as its name, a blank and its text.
func files(t *testing.T, all ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range all {
		name, text, _ := strings.Cut(f, " ")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const fleetText = "coppice.toml [project]\nname = \"t\"\nprogram = \"app.sg\"\n" +
	"[[agent]]\nname = \"db\"\ncommand = \"true\"\n[[agent]]\nname = \"other\"\ncommand = \"true\"\n"

// program is a file app.sg whose supervisor App has these children.
func program(children string) string {
	return "app.sg agent Worker { @persistent n: Int on message(m: Int) { } }\n" +
		"supervisor App { strategy: OneForOne children { " + children + " } }\nrun App;\n"
}

// shape writes a tree as text, children in parentheses.
func shape(n *spec.Node) string {
	var parts []string
	for _, c := range n.Children {
		if c.Node != nil {
			parts = append(parts, shape(c.Node))
		} else {
			parts = append(parts, c.Agent.Name)
		}
	}
	return n.Name + "(" + strings.Join(parts, " ") + ")"
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ children, want, err string }{
		"its own":         {`Worker { restart: Permanent }`, "t(db other App(Worker))", ""},
		"one of the file": {`"db" { restart: Permanent } Worker { restart: Permanent }`, "t(other App(db Worker))", ""},
		"unknown":         {`"none" { restart: Permanent }`, "", "none"},
		"errors":          {`Missing { restart: Permanent }`, "", "app.sg is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, fleetText, program(c.children))
			all, err := config.LoadAll(filepath.Join(dir, "coppice.toml"))
			if err != nil {
				t.Fatal(err)
			}
			p := NewPrograms(discard, nil)
			defer p.Close()
			sources, err := p.Merge(all.Tree)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
			} else if got := shape(all.Tree.Root); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
			// Also a program with errors is watched.
			if len(sources.Files) != 1 || filepath.Base(sources.Files[0]) != "app.sg" {
				t.Errorf("made of %q", sources.Files)
			}
		})
	}
}

// An agent that has not changed belongs to the same process after the file was read again.
func TestMergeAgain(t *testing.T) {
	dir := files(t, fleetText, program("Worker { restart: Permanent }"))
	p := NewPrograms(discard, nil)
	defer p.Close()
	read := func() *spec.Agent {
		all, err := config.LoadAll(filepath.Join(dir, "coppice.toml"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Merge(all.Tree); err != nil {
			t.Fatal(err)
		}
		app := all.Tree.Root.Children[2].Node
		return app.Children[0].Agent
	}
	first := read()
	if again := read(); again.Revision != first.Revision || again.Program.Key != first.Program.Key {
		t.Error("an agent that has not changed is another one")
	}
	t.Chdir(dir) // file names in diagnostics differ then
	if moved := read(); moved.Revision != first.Revision || moved.Program.Key != first.Program.Key {
		t.Error("an agent depends on the working directory")
	}
	p.Fresh = "another run"
	if fresh := read(); fresh.Revision != first.Revision || fresh.Program.Key == first.Program.Key {
		t.Error("another run has the same process")
	}
	p.Fresh = ""
	if len(p.running) != 1 {
		t.Errorf("%d programs are open", len(p.running))
	}
	text := strings.TrimPrefix(program("Worker { restart: Transient }"), "app.sg ")
	if err := os.WriteFile(filepath.Join(dir, "app.sg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := read(); changed.Revision == first.Revision || changed.Program.Key == first.Program.Key {
		t.Error("an agent that has changed is the one before")
	}
}

func TestBeliefs(t *testing.T) {
	ctx := t.Context()
	book, _, err := belief.Open(ctx, memory.New())
	if err != nil {
		t.Fatal(err)
	}
	b, a := Beliefs{Store: book}, host.Agent{Path: "t/own", Incarnation: 1}
	if values, err := b.OpenBeliefs(ctx, a, []string{"n"}); err != nil || len(values) > 0 {
		t.Errorf("begins with %v, %v", values, err)
	}
	if err := b.SaveBeliefs(ctx, a, map[string]string{"n": "7"}); err != nil {
		t.Error(err)
	}
	b.CloseBeliefs(a)
	if err := b.SaveBeliefs(ctx, a, map[string]string{"n": "8"}); err == nil {
		t.Error("an incarnation that is over saves beliefs")
	}
	a.Incarnation = 2
	if values, err := b.OpenBeliefs(ctx, a, []string{"n"}); err != nil || values["n"] != "7" {
		t.Errorf("the next one begins with %v, %v", values, err)
	}
}

func TestNameOfToken(t *testing.T) {
	if tools.EnvToken != proc.EnvToken {
		t.Errorf("programs hide %s from commands, the token is in %s", tools.EnvToken, proc.EnvToken)
	}
}
