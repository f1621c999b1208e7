// Package session follows the files that command lines of language models keep of their sessions, while they are
// written. They tell what a call has used before the command line reports it, if it ever does, and why it has failed.
//
// A file is found by the session that the command line reports, or that the call continues. Until one is known, the
// file is followed that has begun since the start of the call in its working directory, if it is the only one: the
// file of another agent is never guessed to be that of the call.
//
// opencode has no file of a session, but rows in a database: see package opencode.
package session

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// Call describes a call of a command line.
type Call struct {
	CLI agentcli.CLI
	// Env is the environment of the call, and Dir its working directory.
	Env []string
	Dir string
	// Began is the start of the call. What files have of the time before is ignored.
	Began time.Time
	// Session is the session that the call continues; empty if it begins one.
	Session string
	// Shared reports whether another call may have begun a session in the same place while this one goes on: then a
	// file is that of this call only if its session is known. It may be nil.
	Shared func() bool
	// Homes is shared with other calls that are followed at the same time; nil if there are none.
	Homes *Homes
	// Each is called with each event of the call, if it is not nil.
	Each func(agentcli.Event)
}

// Place identifies where the files of a call are, and its working directory. It is empty if it keeps no files.
func (c Call) Place() string {
	dir := c.home()
	if dir == "" {
		return ""
	}
	return string(c.CLI) + "\x00" + dir + "\x00" + resolved(c.Dir)
}

// resolved returns a directory without symbolic links, if it is there.
func resolved(dir string) string {
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return to
	}
	return filepath.Clean(dir)
}

// Bounds of what is read.
const (
	maxPoll     = 32 << 20 // bytes that Poll reads at most
	maxRead     = 1 << 30  // bytes of all files of a call; of more, nothing is known
	maxSessions = 32       // sessions of a call
	maxFiles    = 1000     // files of a call, with those of subagents
	chunk       = 256 << 10
)

// Follower follows the files of one call. It is not safe for concurrent use.
type Follower struct {
	call  Call
	dirs  []string // the spellings of the working directory
	trees map[agentcli.CLI]*tree

	sessions []followed
	guessed  bool // the session was not reported: its file is the only one that fits
	files    []*file
	database *database // of opencode; nil until it is read
	total    agentcli.Stream
	read     int64
	fresh    bool // the next look for files does not rely on an earlier one
}

// followed is a session of the call.
type followed struct {
	cli  agentcli.CLI
	id   string
	seen uint64 // version of the tree in which its files were looked for; 0 if they were not
}

// Follow returns a Follower of the files of a call, which may not have started.
func Follow(c Call) *Follower {
	if c.Homes == nil {
		c.Homes = new(Homes)
	}
	f := &Follower{
		call: c, dirs: []string{filepath.Clean(c.Dir), resolved(c.Dir)}, trees: map[agentcli.CLI]*tree{},
	}
	f.forget()
	f.add(c.CLI, c.Session)
	return f
}

// forget drops what was read.
func (f *Follower) forget() {
	f.sessions, f.guessed, f.files, f.read, f.database = nil, false, nil, 0, nil
	f.total = agentcli.Stream{
		CLI: f.call.CLI, Source: agentcli.FromSession, Since: f.call.Began, Each: f.call.Each,
	}
}

// validID matches the IDs of sessions, which are parts of file names.
var validID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{7,127}$`)

// add adds a session, and reports whether it is new.
func (f *Follower) add(cli agentcli.CLI, id string) bool {
	known := slices.ContainsFunc(f.sessions, func(s followed) bool { return s.cli == cli && s.id == id })
	if !validID().MatchString(id) || len(f.sessions) == maxSessions || known {
		return false
	}
	f.sessions = append(f.sessions, followed{cli: cli, id: id})
	return true
}

// Poll reads what was written since the last call, and reports whether anything was. out is what the call has reported
// so far on its standard output.
func (f *Follower) Poll(out agentcli.Report) bool {
	cli := f.call.CLI
	if cli == agentcli.Plain || cli == "" { // a program that calls a command line
		cli = out.CLI
	}
	if out.Session != "" {
		if f.guessed && (len(f.sessions) != 1 || f.sessions[0].id != out.Session) {
			f.forget()
		}
		f.guessed = false
		if f.add(cli, out.Session) {
			f.fresh = true
		}
	}
	f.scan(out)
	f.fresh = false
	more := f.readDatabase()
	return f.readFiles(maxPoll) || more
}

// Finish reads the rest after the end of the call.
func (f *Follower) Finish(out agentcli.Report) {
	f.fresh = true
	for range maxRead / maxPoll {
		if !f.Poll(out) {
			return
		}
	}
}

// Report returns what the files have of the call.
func (f *Follower) Report() agentcli.Report {
	if f.read > maxRead || f.database != nil && f.database.unknown {
		return agentcli.Report{}
	}
	r := f.total.Report()
	if len(f.sessions) > 0 {
		r.Session = f.sessions[len(f.sessions)-1].id
	}
	return r
}

// scan looks for files that are not followed yet.
func (f *Follower) scan(out agentcli.Report) {
	if len(f.sessions) == 0 || f.guessed {
		f.guess(out)
	}
	for i := range f.sessions {
		s := &f.sessions[i]
		f.inspect(s.cli, func(w *walk) {
			if s.seen == w.tree.version {
				return
			}
			s.seen = w.tree.version
			for _, found := range f.ofSession(w, *s) {
				f.follow(s.cli, found)
			}
		})
	}
}

// inspect calls do with a walk of the directory in which a command line keeps its sessions, if it has one.
func (f *Follower) inspect(cli agentcli.CLI, do func(w *walk)) {
	t := f.trees[cli]
	if t == nil {
		home := f.home(cli)
		if home == "" {
			return
		}
		t = f.call.Homes.tree(cli, home)
		f.trees[cli] = t
	}
	t.look(f.fresh, do)
}

// guess looks for the session of a call that has not reported it.
func (f *Follower) guess(out agentcli.Report) {
	if f.call.Shared != nil && f.call.Shared() {
		if f.guessed {
			f.forget()
		}
		return
	}
	if f.call.CLI == agentcli.Opencode {
		f.take(f.begunInDatabase(), false)
		return
	}
	f.inspect(f.call.CLI, func(w *walk) { f.choose(w.recentSince(f.call.Began), out.Origin) })
}

// choose takes the only recent session that may be that of the call, if there is one.
func (f *Follower) choose(recent *index, origin string) {
	began := f.call.Began.Truncate(time.Millisecond)
	ids := map[string]bool{}
	for _, dir := range f.dirs {
		for _, h := range recent.begun[dir] {
			if !h.began.Before(began) && (origin == "" || h.origin == origin) {
				ids[h.id] = true
			}
		}
	}
	f.take(ids, recent.partial)
}

// take takes the only session of some that may be that of the call. partial says that there may be more.
func (f *Follower) take(ids map[string]bool, partial bool) {
	none := len(ids) == 0 && partial // yet
	if f.guessed && !none && (len(ids) != 1 || !ids[f.sessions[0].id]) {
		f.forget()
	}
	if len(ids) == 1 && !partial {
		for id := range ids {
			f.guessed = f.add(f.call.CLI, id) || f.guessed
		}
	}
}

// follow adds a file, unless it is followed already.
func (f *Follower) follow(cli agentcli.CLI, found place) {
	known := slices.ContainsFunc(f.files, func(o *file) bool { return o.cli == cli && o.path == found.path })
	if !known && len(f.files) < maxFiles {
		f.files = append(f.files, &file{place: found, cli: cli})
	}
}
