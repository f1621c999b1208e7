package session

import (
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
	"weak"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Homes shares between calls what is in the directories in which command lines keep their sessions: a directory is
// read when something in it was created, removed or renamed, once for all calls. The zero value is ready to use. It is
// safe for concurrent use.
type Homes struct {
	mu    sync.Mutex
	trees map[treeKey]weak.Pointer[tree] // as long as a Follower has them
}

// treeKey identifies a tree.
type treeKey struct {
	cli agentcli.CLI
	dir string
}

// tree returns the tree of a command line in a directory.
func (h *Homes) tree(cli agentcli.CLI, dir string) *tree {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := treeKey{cli, dir}
	if t := h.trees[key].Value(); t != nil {
		return t
	}
	maps.DeleteFunc(h.trees, func(_ treeKey, p weak.Pointer[tree]) bool { return p.Value() == nil })
	if h.trees == nil {
		h.trees = map[treeKey]weak.Pointer[tree]{}
	}
	t := newTree(cli, dir)
	h.trees[key] = weak.Make(t)
	return t
}

// Between two checks of a tree is at least minCheck, and scanRest times as long as the last one took with the looks
// that followed it, but no more than maxCheck. So looks take at most 1/scanRest of a processor, without the headers.
const (
	minCheck = 200 * time.Millisecond
	scanRest = 20
	maxCheck = 10 * time.Second
)

// trust is the time after which a directory is read again although its time of change has stayed the same, and its
// files are looked at again. Some file systems have coarse times, or tell them late.
const trust = time.Minute

// maxHeaders bounds the bytes of headers that are read between two checks. What is left is read after the next one.
const maxHeaders = 4 << 20

// minHeader is the least number of bytes that a header counts.
const minHeader = 4 << 10

// tree caches the directory in which a command line keeps its sessions.
type tree struct {
	cli agentcli.CLI
	dir string

	mu      sync.Mutex
	dirs    map[string]*directory // by their paths below dir
	entries int                   // of all dirs
	version uint64                // is increased when a look may find something else
	index   index

	checked, swept time.Time
	took           time.Duration // for the last check, and looks since
	room           int64         // bytes of headers that may be read until the next check
	unread         bool          // there was no room
	pending        map[string]*entry
}

func newTree(cli agentcli.CLI, dir string) *tree {
	return &tree{cli: cli, dir: dir, dirs: map[string]*directory{}, pending: map[string]*entry{}}
}

// look calls do with a walk of the tree as it is now, or was at the last check unless fresh is set.
func (t *tree) look(fresh bool, do func(w *walk)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &walk{tree: t, now: time.Now()}
	defer w.close()
	if pause := min(maxCheck, max(minCheck, scanRest*t.took)); fresh || w.now.Sub(t.checked) >= pause {
		t.checked, t.took, t.room = w.now, 0, maxHeaders
		w.check()
	}
	do(w)
	t.took += time.Since(w.now)
}

// check looks for what has changed since the last check.
func (w *walk) check() {
	t := w.tree
	if t.unread {
		t.unread = false
		t.version++
	}
	if w.now.Sub(t.swept) >= trust {
		t.sweep(w.now)
		return
	}
	for path, d := range t.dirs {
		if d.stale {
			continue
		}
		now := w.stat(path)
		if d.changed(now) {
			d.stale = true
			t.version++
		}
		t.keep(d, now)
	}
	for path, e := range t.pending {
		w.retry(path, e)
	}
}

// retry reads the header of a file again that was not whole.
func (w *walk) retry(path string, e *entry) {
	t := w.tree
	now := w.lstat(path)
	if now == nil {
		delete(t.pending, path)
		return
	}
	if now.same(e) && t.cli != agentcli.Gemini { // a part of that of gemini is in another file
		return
	}
	h, ok := w.readHeader(path)
	if !ok {
		return
	}
	e.size, e.time, e.inode = now.size, now.time, now.inode
	if h != *e.header {
		e.header = &h
		t.version++
	}
	if h.whole() {
		delete(t.pending, path)
	}
}

// sweep drops the directories that were not used since the last sweep, and has the others read again.
func (t *tree) sweep(now time.Time) {
	t.swept = now
	t.version++
	for path, d := range t.dirs {
		if !d.used {
			t.keep(d, nil)
			delete(t.dirs, path)
		}
		d.used, d.stale, d.swept = false, true, true
	}
	clear(t.pending)
}

// keep drops the entries of a directory, unless it is the same one now.
func (t *tree) keep(d *directory, now fs.FileInfo) {
	if now == nil || d.info == nil || !os.SameFile(d.info, now) {
		t.entries -= len(d.entries)
		d.info, d.entries = nil, nil
	}
}

// index has the files of recent sessions, by what calls look for.
type index struct {
	version uint64    // of the tree
	since   time.Time // earliest start of a call that has asked; zero if none has
	recent  []match
	begun   map[string][]*header // of sessions, by their working directories
	files   map[string][]string  // of codex, by their sessions
	partial bool                 // there are files of which the header is not known yet
}

// maxHeld bounds the headers of an index, in bytes.
const maxHeld = 32 << 20

// recentSince returns the files of sessions that have begun since a time. There may be older ones.
func (w *walk) recentSince(since time.Time) *index {
	t := w.tree
	x, version := &t.index, t.version
	if !x.since.IsZero() && !since.Before(x.since) {
		if x.version == version {
			return x
		}
		since = x.since
	}
	*x = index{
		version: version, since: since, recent: w.recent(t.cli, since),
		begun: map[string][]*header{}, files: map[string][]string{},
	}
	held := 0
	for _, m := range x.recent {
		h := w.header(m)
		if held += len(h.id) + len(h.dir) + len(h.origin); held > maxHeld {
			x.partial = true
			break
		}
		if m.header == nil && !m.time.Before(written(since)) {
			x.partial = true
		}
		if t.cli == agentcli.Codex && h.id != "" {
			x.files[h.id] = append(x.files[h.id], m.path())
		}
		if h.whole() && !h.sub {
			x.begun[h.dir] = append(x.begun[h.dir], m.header)
		}
	}
	return x
}
