package session

import (
	"cmp"
	"io/fs"
	"os"
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
	dir := f.home(cli)
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	return os.OpenRoot(dir)
}

// home returns the directory in which a command line keeps its sessions, as the environment of the call says; empty if
// there is none.
func (f *Follower) home(cli agentcli.CLI) string {
	of := f.call
	of.CLI = cli
	return of.home()
}

// home returns the directory in which the command line of a call keeps its sessions; empty if there is none.
func (c Call) home() string {
	dir := home(c.CLI, c.Env)
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Dir, dir)
	}
	return dir
}

// Variables returns the variables of an environment that say where command lines keep their sessions.
func Variables(env []string) []string {
	var some []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "COPILOT_HOME":
			some = append(some, kv)
		}
	}
	return some
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
		name := "-" + s.id + ".jsonl"
		for _, p := range w.recentSince(f.call.Began).files[s.id] {
			add(!strings.HasSuffix(p, name), []string{p})
		}
		known := func(p *file) bool { return p.cli == s.cli && !p.sub && strings.HasSuffix(p.path, name) }
		if !slices.ContainsFunc(all, func(p place) bool { return !p.sub }) && !slices.ContainsFunc(f.files, known) {
			add(false, w.glob("sessions", "*", "*", "*", "rollout-*"+name))
		}
	case agentcli.Gemini:
		for _, m := range w.matches("tmp", "*", "chats", "session-*-"+s.id[:8]+".jsonl") {
			if w.header(m).id == s.id {
				add(false, []string{m.path()})
			}
		}
		add(true, w.glob("tmp", "*", "chats", s.id, "*.jsonl"))
	case agentcli.Copilot:
		add(false, w.glob("session-state", s.id, "events.jsonl"))
	}
	return all
}

// written returns the earliest time that a file may have that was written since a time: times of files are coarse.
func written(since time.Time) time.Time { return since.Add(-time.Second) }

// recent returns the files of sessions that have begun since a time, and others.
func (w *walk) recent(cli agentcli.CLI, since time.Time) []match {
	w.since, w.made = written(since), true
	defer func() { w.since, w.made = time.Time{}, false }()
	switch cli {
	case agentcli.Claude:
		return w.matches("projects", "*", "*.jsonl")
	case agentcli.Codex: // also those that were not written since: subagents may go on
		w.since, w.made = time.Time{}, false
		var all []match
		for ago := -1; ago <= maxDays && !w.now.AddDate(0, 0, -ago+1).Before(since); ago++ { // days of any time zone
			day := w.now.AddDate(0, 0, -ago).Format("2006/01/02")
			all = append(all, w.matches("sessions", day, "rollout-*.jsonl")...)
		}
		return all
	case agentcli.Gemini:
		return w.matches("tmp", "*", "chats", "session-*.jsonl")
	case agentcli.Copilot:
		return w.matches("session-state", "*", "events.jsonl")
	}
	return nil
}

// maxDays bounds the days of which files of codex are recent.
const maxDays = 30
