package session

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// place is where a file of a session is.
type place struct {
	path string // below the directory of the command line
	sub  bool   // it is of a subagent
}

// open opens the directory in which a command line keeps its sessions, as the environment of the call says.
func (f *Follower) open(cli agentcli.CLI) (*os.Root, error) {
	of := f.call
	of.CLI = cli
	dir := of.home()
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	return os.OpenRoot(dir)
}

// home returns the directory in which the command line of a call keeps its sessions; empty if there is none.
func (c Call) home() string {
	dir := home(c.CLI, c.Env)
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Dir, dir)
	}
	return dir
}

// home returns the directory in which a command line keeps its sessions; empty if there is none.
func home(cli agentcli.CLI, env []string) string {
	variable := func(name string) (value string) {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				value = v
			}
		}
		return value
	}
	below := func(dir, name string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	user := variable("HOME")
	switch cli {
	case agentcli.Claude:
		return cmp.Or(variable("CLAUDE_CONFIG_DIR"), below(user, ".claude"))
	case agentcli.Codex:
		return cmp.Or(variable("CODEX_HOME"), below(user, ".codex"))
	case agentcli.Gemini:
		return below(cmp.Or(variable("GEMINI_CLI_HOME"), user), ".gemini")
	case agentcli.Opencode:
		return below(cmp.Or(variable("XDG_DATA_HOME"), below(user, ".local/share")), "opencode")
	case agentcli.Copilot:
		return cmp.Or(variable("COPILOT_HOME"), below(user, ".copilot"))
	}
	return ""
}

// ofSession returns the files of a session that are there.
func (f *Follower) ofSession(w *walk, s followed) (all []place) {
	add := func(sub bool, paths []string) {
		for _, p := range paths {
			all = append(all, place{p, sub})
		}
	}
	switch s.cli {
	case agentcli.Claude:
		add(false, w.glob("projects", "*", s.id+".jsonl"))
		add(true, w.glob("projects", "*", s.id, "subagents", "*.jsonl"))
		add(true, w.glob("projects", "*", s.id, "subagents", "*", "*.jsonl"))
	case agentcli.Codex:
		name := "rollout-*-" + s.id + ".jsonl"
		recent := w.recent(s.cli, f.call.Began)
		for _, p := range recent {
			switch own, _ := path.Match(name, path.Base(p)); {
			case own:
				add(false, []string{p})
			case f.header(w.root, s.cli, p).id == s.id:
				add(true, []string{p})
			}
		}
		known := func(p *file) bool { return p.cli == s.cli && !p.sub && strings.HasSuffix(p.path, s.id+".jsonl") }
		if !slices.ContainsFunc(all, func(p place) bool { return !p.sub }) && !slices.ContainsFunc(f.files, known) {
			add(false, w.glob("sessions", "*", "*", "*", name))
		}
	case agentcli.Gemini:
		for _, p := range w.glob("tmp", "*", "chats", "session-*-"+s.id[:8]+".jsonl") {
			if f.header(w.root, s.cli, p).id == s.id {
				add(false, []string{p})
			}
		}
		add(true, w.glob("tmp", "*", "chats", s.id, "*.jsonl"))
	case agentcli.Copilot:
		add(false, w.glob("session-state", s.id, "events.jsonl"))
	}
	return all
}

// recent returns the files of sessions that were written since a time.
func (w *walk) recent(cli agentcli.CLI, since time.Time) []string {
	w.since = since.Add(-time.Second) // times of files are coarse
	defer func() { w.since = time.Time{} }()
	switch cli {
	case agentcli.Claude:
		return w.glob("projects", "*", "*.jsonl")
	case agentcli.Codex:
		var all []string
		now := time.Now()
		for ago := -1; ago <= maxDays && !now.AddDate(0, 0, -ago+1).Before(since); ago++ { // days of any time zone
			day := now.AddDate(0, 0, -ago).Format("2006/01/02")
			all = append(all, w.glob("sessions", day, "rollout-*.jsonl")...)
		}
		return all
	case agentcli.Gemini:
		return w.glob("tmp", "*", "chats", "session-*.jsonl")
	case agentcli.Copilot:
		return w.glob("session-state", "*", "events.jsonl")
	}
	return nil
}

// maxDays bounds the days of which files of codex are recent.
const maxDays = 30

// maxEntries bounds the entries of directories that one look for files reads.
const maxEntries = 100_000

// walk looks for files below a directory.
type walk struct {
	root  *os.Root
	since time.Time // files that were last written before are left out
	made  bool      // files that were made before may be left out, too
	seen  int       // entries so far
}

// glob returns the regular files whose path matches a pattern, given as its segments. Newer names come first.
func (w *walk) glob(pattern ...string) []string { return w.below(".", pattern) }

func (w *walk) below(dir string, pattern []string) (all []string) {
	first, rest := pattern[0], pattern[1:]
	names := []string{first}
	if len(rest) == 0 && w.made && w.unchanged(dir) {
		return nil
	}
	if strings.Contains(first, "*") {
		names = w.names(dir, first)
	}
	for _, name := range names {
		p := path.Join(dir, name)
		if len(rest) > 0 {
			all = append(all, w.below(p, rest)...)
			continue
		}
		info, err := w.root.Lstat(p)
		if err == nil && info.Mode().IsRegular() && !info.ModTime().Before(w.since) {
			all = append(all, p)
		}
	}
	return all
}

// unchanged reports whether nothing was made in a directory of late, however many files it has.
func (w *walk) unchanged(dir string) bool {
	info, err := w.root.Stat(dir)
	return err == nil && info.ModTime().Before(w.since)
}

// names returns the entries of a directory that match a pattern.
func (w *walk) names(dir, pattern string) (all []string) {
	if w.seen >= maxEntries {
		return nil
	}
	if info, err := w.root.Stat(dir); err != nil || !info.IsDir() { // opening something else may block
		return nil
	}
	d, err := w.root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxEntries - w.seen)
	w.seen += len(entries)
	for _, e := range entries {
		if ok, err := path.Match(pattern, e.Name()); ok && err == nil {
			all = append(all, e.Name())
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(b, a) })
	return all
}
