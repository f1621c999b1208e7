package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/load"
)

// noProjects is a load.Projects without projects.
type noProjects struct{}

func (noProjects) Settings(string) (*load.Settings, error) { return nil, os.ErrNotExist }
func (noProjects) Fleet(string) (load.Fleet, error)        { return load.Fleet{Agents: []string{"db"}}, nil }

// A bundle has all files of a program, so the process never reads them: they may be gone or changed.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.sg": `
mod lib;
agent A { on start { print("{lib::twice(2)}"); } }
supervisor Inner { strategy: OneForAll children { A { restart: Permanent } A { restart: Permanent } } }
supervisor S {
    strategy: OneForOne
    children { "db" { restart: Permanent } A { restart: Temporary } Inner { restart: Permanent } }
}
run S;
`,
		"lib.sg": `pub fn twice(n: Int) -> Int { return n * 2; }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := load.Find(noProjects{}, filepath.Join(dir, "main.sg"))
	if err != nil {
		t.Fatal(err)
	}
	info, _, err := p.Check(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := NewBundle("t/S", p, info, 1<<30).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	opened, err := Open(bytes.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if opened.Memory() != 1<<30 {
		t.Errorf("memory %d", opened.Memory())
	}
	var agents []string
	for path := range opened.(*Program).agents {
		agents = append(agents, path)
	}
	slices.Sort(agents)
	if want := []string{"t/S/A", "t/S/Inner/A", "t/S/Inner/A-2"}; !slices.Equal(agents, want) {
		t.Errorf("agents %q, want %q", agents, want)
	}
}

// A damaged bundle is an error that says so.
func TestDamagedBundle(t *testing.T) {
	for text, want := range map[string]string{
		"":   "reading the bundle",
		"{":  "reading the bundle",
		"{}": "not exist",
		`{"Program": {"Entry": "/x/a.sg", "Root": "/x"}}`:                                       "not exist",
		`{"Program": {"Entry": "/x/a.sg", "Root": "/x"}, "Texts": {"/x/a.sg": "run Nothing;"}}`: "is not valid",
		`{"Program": {"Entry": "/x/a.sg", "Root": "/x"}, "Texts": {"/x/a.sg": ""}}`:             "runs nothing",
	} {
		if _, err := Open(strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What an agent does after it has ended goes nowhere, and fails.
func TestAgentThatDoesNotRun(t *testing.T) {
	s := services{&Program{running: map[string]*member{}}}
	if _, err := s.OpenBeliefs(t.Context(), host.Agent{Path: "t/a/b", Incarnation: 1}, nil); err == nil {
		t.Error("it opens beliefs")
	}
	if err := s.SaveBeliefs(t.Context(), host.Agent{Path: "t/a/b", Incarnation: 1}, nil); err == nil {
		t.Error("it saves beliefs")
	}
	s.Print("t/a/b", false, "text")
	s.Started(t.Context(), host.Agent{Path: "t/a/b", Incarnation: 1})
}
