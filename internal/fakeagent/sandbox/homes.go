package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/fakeagent"
)

// ownFiles are what the command lines keep in a home: logins, settings and sessions. A home for fakes lacks them.
var ownFiles = [...]string{
	".claude", ".claude.json", ".codex", ".gemini", ".copilot", ".opencode", ".config/claude", ".config/opencode",
	".config/github-copilot", ".local/share/opencode", ".local/state/opencode", ".local/share/claude",
	".cache/opencode",
}

// programs are where installers put command lines in a home; %s is the name.
var programs = [...]string{
	".local/bin/%s", ".claude/local/%s", ".opencode/bin/%s", ".bun/bin/%s", ".npm-global/bin/%s", ".volta/bin/%s",
	"bin/%s", "go/bin/%s", ".cargo/bin/%s", ".yarn/bin/%s", ".local/share/pnpm/%s",
}

// maxLinks bounds the entries of a home.
const maxLinks = 20_000

// home returns a home for fakes: links to all that is in the real one, except for what the command lines keep there.
// So scripts find their settings, and no command line a login.
func (s *Sandbox) home(real string) (string, error) {
	if dir, ok := s.homes[real]; ok {
		return dir, nil
	}
	dir := filepath.Join(s.Dir, "homes", standIn(real))
	l := linker{real: real, dir: dir, except: map[string]string{}}
	for _, name := range ownFiles {
		l.except[name] = ""
	}
	for _, cli := range fakeagent.CLIs() {
		for _, place := range programs {
			l.except[fmt.Sprintf(place, fakeagent.Program(cli))] = s.fake(cli)
		}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && filepath.IsAbs(real) {
		err = l.link("")
	}
	if err != nil {
		return "", fmt.Errorf("making a home for fakes: %w", err)
	}
	s.homes[real] = dir
	return dir, nil
}

// linker makes a directory with links to what is in another.
type linker struct {
	real, dir string
	except    map[string]string // by name: what is there instead; nothing if empty
	links     int
}

// link makes the entries of a directory. One that cannot be read is empty.
func (l *linker) link(under string) error {
	entries, err := os.ReadDir(filepath.Join(l.real, under))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := filepath.Join(under, e.Name())
		if l.links++; l.links > maxLinks {
			return fmt.Errorf("%s has more than %d entries", l.real, maxLinks)
		}
		to := filepath.Join(l.real, name)
		instead, excepted := l.except[name]
		switch {
		case excepted && instead == "":
			if err := l.inside(name); err != nil {
				return err
			}
			continue
		case excepted:
			to = instead
		case l.above(name):
			if info, err := os.Stat(to); err == nil && info.IsDir() {
				if err := makeDir(filepath.Join(l.dir, name)); err != nil {
					return err
				}
				if err := l.link(name); err != nil {
					return err
				}
				continue
			}
		}
		if err := os.Symlink(to, filepath.Join(l.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// inside makes the programs in a directory that is left out otherwise.
func (l *linker) inside(name string) error {
	for place, instead := range l.except {
		if instead == "" || !strings.HasPrefix(place, name+"/") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.real, place)); err != nil {
			continue
		}
		at := filepath.Join(l.dir, place)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(instead, at); err != nil {
			return err
		}
	}
	return nil
}

// above reports whether something below a name is excepted.
func (l *linker) above(name string) bool {
	for place := range l.except {
		if strings.HasPrefix(place, name+"/") {
			return true
		}
	}
	return false
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
