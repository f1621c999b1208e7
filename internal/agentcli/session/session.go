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
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
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
	// Rest is the pause between two looks for files, as a multiple of the time that a look takes; 50 if it is 0.
	Rest int
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

// Between two looks for files is at least scanPause, and so many times as long as the last look took as Call.Rest says,
// but no more than maxScanPause.
const (
	scanPause    = 200 * time.Millisecond
	defaultRest  = 50
	maxScanPause = time.Minute
)

// Follower follows the files of one call. It is not safe for concurrent use.
type Follower struct {
	call Call
	dirs []string // the spellings of the working directory

	sessions []followed
	guessed  bool // the session was not reported: its file is the only one that fits
	files    []*file
	headers  map[string]header // of files that may be those of the call
	database *database         // of opencode; nil until it is read
	total    agentcli.Stream
	read     int64
	nextScan time.Time
}

// followed is a session of the call.
type followed struct {
	cli agentcli.CLI
	id  string
}

// Follow returns a Follower of the files of a call, which may not have started.
func Follow(c Call) *Follower {
	f := &Follower{call: c, dirs: []string{filepath.Clean(c.Dir), resolved(c.Dir)}}
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
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{7,127}$`)

// add adds a session, and reports whether it is new.
func (f *Follower) add(cli agentcli.CLI, id string) bool {
	s := followed{cli, id}
	if !validID.MatchString(id) || len(f.sessions) == maxSessions || slices.Contains(f.sessions, s) {
		return false
	}
	f.sessions = append(f.sessions, s)
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
			f.nextScan = time.Time{}
		}
	}
	if now := time.Now(); !now.Before(f.nextScan) {
		f.scan(out)
		rest := time.Duration(cmp.Or(f.call.Rest, defaultRest))
		f.nextScan = now.Add(min(maxScanPause, max(scanPause, rest*time.Since(now))))
	}
	more := f.readDatabase()
	return f.readFiles(maxPoll) || more
}

// Finish reads the rest after the end of the call.
func (f *Follower) Finish(out agentcli.Report) {
	f.nextScan = time.Time{}
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
	for _, s := range f.sessions {
		root, err := f.open(s.cli)
		if err != nil {
			continue
		}
		w := walk{root: root}
		for _, found := range f.ofSession(&w, s) {
			f.follow(s.cli, found)
		}
		root.Close()
	}
}

// guess looks for the session of a call that has not reported it.
func (f *Follower) guess(out agentcli.Report) {
	if f.call.Shared != nil && f.call.Shared() {
		if f.guessed {
			f.forget()
		}
		return
	}
	root, err := f.open(f.call.CLI)
	if err != nil {
		return
	}
	defer root.Close()
	began := f.call.Began.Truncate(time.Millisecond)
	ids := map[string]bool{}
	w := walk{root: root, made: true}
	for _, path := range w.recent(f.call.CLI, f.call.Began) {
		h := f.header(root, f.call.CLI, path)
		origin := out.Origin == "" || h.origin == out.Origin
		if h.whole() && !h.sub && !h.began.Before(began) && slices.Contains(f.dirs, filepath.Clean(h.dir)) && origin {
			ids[h.id] = true
		}
	}
	if f.call.CLI == agentcli.Opencode {
		f.begunInDatabase(ids)
	}
	if f.guessed && (len(ids) != 1 || !ids[f.sessions[0].id]) {
		f.forget()
	}
	if len(ids) == 1 {
		for id := range ids {
			f.guessed = f.add(f.call.CLI, id) || f.guessed
		}
	}
}

// header returns the header of a file.
func (f *Follower) header(root *os.Root, cli agentcli.CLI, path string) header {
	if h, ok := f.headers[path]; ok {
		return h
	}
	h := readHeader(root, cli, path)
	if h.whole() && len(f.headers) < 10*maxFiles {
		if f.headers == nil {
			f.headers = map[string]header{}
		}
		f.headers[path] = h
	}
	return h
}

// follow adds a file, unless it is followed already.
func (f *Follower) follow(cli agentcli.CLI, found place) {
	known := slices.ContainsFunc(f.files, func(o *file) bool { return o.cli == cli && o.path == found.path })
	if !known && len(f.files) < maxFiles {
		f.files = append(f.files, &file{place: found, cli: cli})
	}
}
