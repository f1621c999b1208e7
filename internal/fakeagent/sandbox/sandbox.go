// Package sandbox runs a project with fakes in place of the command lines of language models. It makes a temporary
// directory with the fakes, homes and the state of the run, and changes the commands and the environments of agents
// so that no model is called. What it cannot replace for certain is an error.
package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/sage/load"
)

// Sandbox is the directory of a run with fakes.
type Sandbox struct {
	fakeagent.Setting
	// Note is called once with each line about what a run with fakes leaves out.
	Note func(string)

	homes        map[string]string      // by the real home
	copies       string                 // the directory of the copies of repositories; empty if there are none
	repositories map[string]*repository // by the work tree that was copied
	noted        map[string]bool
	outside      map[string]*string // variables of this process before Enter
}

// maxSeed bounds a seed that is drawn, so that people can type it.
const maxSeed = 1_000_000

// New makes a sandbox for a run that starts now. exe is the program that plays the fakes. The caller closes it.
func New(plan fakeagent.Plan, exe string) (*Sandbox, error) {
	if !plan.SeedSet {
		plan.Seed, plan.SeedSet = rand.Uint64N(maxSeed), true
	}
	dir, err := makeTemp("coppice-fake-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for fakes: %w", err)
	}
	s := &Sandbox{
		Setting: fakeagent.Setting{Plan: plan, Start: time.Now(), Dir: dir}, homes: map[string]string{},
		repositories: map[string]*repository{}, Note: func(string) {}, noted: map[string]bool{},
		outside: map[string]*string{},
	}
	for _, sub := range []string{s.bin(), s.State()} {
		err = cmp.Or(err, os.Mkdir(sub, 0o700))
	}
	for _, cli := range fakeagent.CLIs() {
		err = cmp.Or(err, os.Symlink(exe, s.fake(cli)))
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("making a directory for fakes: %w", err)
	}
	return s, nil
}

// makeTemp makes a temporary directory whose name has a prefix.
func makeTemp(prefix string) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// Close removes the directory, and the copies of repositories that have not changed. Summary names those that stay.
func (s *Sandbox) Close() error {
	for name, value := range s.outside {
		if value == nil {
			os.Unsetenv(name)
		} else {
			os.Setenv(name, *value)
		}
	}
	return errors.Join(s.removeCopies(), os.RemoveAll(s.Dir))
}

// State returns the directory for the state of the run.
func (s *Sandbox) State() string { return filepath.Join(s.Dir, "state") }

func (s *Sandbox) bin() string { return filepath.Join(s.Dir, "bin") }

// fake returns the path of a fake.
func (s *Sandbox) fake(cli agentcli.CLI) string {
	return filepath.Join(s.bin(), fakeagent.Program(cli))
}

// Enter changes the environment of this process, which agents inherit, until Close: they find the fakes first, and
// a home without a login. Variables that choose the server of a Sage program are removed, except for its mock.
func (s *Sandbox) Enter() error {
	home, err := s.home(os.Getenv("HOME"))
	if err != nil {
		return err
	}
	s.setenv("HOME", &home)
	path := s.path(os.Getenv("PATH"))
	s.setenv("PATH", &path)
	setting := s.Env()
	s.setenv(fakeagent.EnvName, &setting)
	if os.Getenv("SAGE_API_KEY") != "mock" {
		s.setenv("SAGE_API_KEY", nil)
		s.setenv("SAGE_LLM_URL", nil)
	}
	return nil
}

func (s *Sandbox) setenv(name string, value *string) {
	var before *string
	if v, ok := os.LookupEnv(name); ok {
		before = &v
	}
	s.outside[name] = before
	if value == nil {
		os.Unsetenv(name)
	} else {
		os.Setenv(name, *value)
	}
}

// path returns a PATH in which the fakes come first.
func (s *Sandbox) path(path string) string {
	return s.bin() + string(filepath.ListSeparator) + path
}

func (s *Sandbox) note(text string) {
	if !s.noted[text] { // the file may be read again
		s.noted[text] = true
		s.Note(text)
	}
}

// Program changes a Sage program: the command that answers divine is a fake, and its beliefs are those of the run.
func (s *Sandbox) Program(p *load.Program) error {
	if p.Settings == nil {
		return nil
	}
	if p.Settings.Database != "" {
		p.Settings.Database = filepath.Join(s.State(), "beliefs.db")
	}
	command, _, err := s.Command(p.Settings.Divine.Command)
	if err != nil {
		return fmt.Errorf("the command of [divine] in %s: %w", p.Settings.File, err)
	}
	p.Settings.Divine.Command = command
	return nil
}

// standIn returns a value that differs where the values differ, and does not show them.
func standIn(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:6])
}

// Summary returns a line about what the fakes have played, and one about each copy of a repository that has changed.
func (s *Sandbox) Summary() string {
	calls, err := s.Calls()
	if err != nil {
		return fmt.Sprintf("fakes: the record of calls cannot be read: %v", err)
	}
	counts := map[fakeagent.Scenario]int{}
	for _, c := range calls {
		counts[c.Scenario]++
	}
	var parts []string
	for _, i := range fakeagent.Scenarios() {
		if n := counts[i.Scenario]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, i.Scenario))
		}
	}
	played := "no calls"
	if len(calls) > 0 {
		played = fmt.Sprintf("%d calls: %s", len(calls), strings.Join(parts, ", "))
	}
	lines := []string{fmt.Sprintf("fakes: %s; the same again: --fake '%s'", played, s.Plan)}
	for _, real := range slices.Sorted(maps.Keys(s.repositories)) {
		if r := s.repositories[real]; r.hasChanged() {
			line := fmt.Sprintf("fakes: the copy of %s has what its pipelines have done: %s", real, r.dir)
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Head returns what a run with fakes is, in a line.
func (s *Sandbox) Head() string {
	var names []string
	for _, cli := range fakeagent.CLIs() {
		names = append(names, fakeagent.Program(cli))
	}
	last := len(names) - 1
	plan := s.Plan
	plan.SeedSet = false
	return fmt.Sprintf("fakes: %s and %s are fakes, no model is called; plan %s, seed %d",
		strings.Join(names[:last], ", "), names[last], cmp.Or(plan.String(), string(fakeagent.OK)), s.Plan.Seed)
}
