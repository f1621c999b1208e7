// Package filewatch reports when files may have changed. It watches their directories, as
// editors replace a file by renaming a new one. It also polls the files, which finds changes
// that the system does not report: on network file systems, in directories that were deleted
// and created again, and when there are no inotify watches left. A notice may be spurious.
package filewatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Delays and intervals.
const (
	// Quiet is the time without a change before a notice is sent. It merges a series of changes.
	Quiet = 200 * time.Millisecond
	// maxDelay is the longest delay of a notice while changes continue.
	maxDelay = 2 * time.Second
	// Every is the time between two polls of the files.
	Every = 2 * time.Second
)

// Set is a set of watched files and directories.
type Set struct {
	// Files are polled. For other files in Dirs only creation, removal and renaming count, as
	// some may be written all the time.
	Files []string
	// Dirs are watched, once they exist.
	Dirs []string
}

// Watcher watches a Set, which can be replaced.
type Watcher struct {
	changed chan struct{}
	sets    chan *change
	done    chan struct{}
	ended   chan struct{}
	logger  *slog.Logger
}

// New starts a Watcher. If the system has no watches left, it only polls.
func New(s Set, logger *slog.Logger) *Watcher {
	w := &Watcher{
		changed: make(chan struct{}, 1), sets: make(chan *change), done: make(chan struct{}),
		ended: make(chan struct{}), logger: logger,
	}
	go w.run(newView(s))
	return w
}

// Changed returns a channel that receives when something may have changed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// change is a new Set. applied is closed once it is watched.
type change struct {
	set     Set
	applied chan struct{}
}

// Watch replaces the watched set. Changes after it returns are reported, so call it before
// reading the files.
func (w *Watcher) Watch(s Set) {
	c := &change{s, make(chan struct{})}
	select {
	case w.sets <- c:
	case <-w.done:
		return
	}
	select {
	case <-c.applied:
	case <-w.ended:
	}
}

// Close stops the Watcher. It does not wait for a file system that hangs.
func (w *Watcher) Close() { close(w.done) }

func (w *Watcher) run(v *view) {
	defer close(w.ended)
	var events chan fsnotify.Event
	var errors chan error
	fs, err := fsnotify.NewWatcher()
	if err == nil {
		defer fs.Close()
		events, errors = fs.Events, fs.Errors
	} else {
		w.logger.Warn("files cannot be watched; they are looked at now and then", "error", err)
	}
	v.watch(fs)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	var since time.Time // time of the first change without a notice
	delayNotice := func() {
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		quiet.Reset(max(0, min(Quiet, since.Add(maxDelay).Sub(now))))
	}
	for {
		select {
		case e := <-events:
			if v.isRelevant(e) {
				delayNotice()
			}
		case <-errors: // for example an overflow of the event queue
			delayNotice()
		case <-tick.C:
			if v.poll(fs) {
				delayNotice()
			}
		case c := <-w.sets:
			next := newView(c.set)
			next.inherit(v, fs)
			v = next
			v.watch(fs)
			close(c.applied)
		case <-quiet.C:
			since = time.Time{}
			select {
			case w.changed <- struct{}{}:
			default:
			}
		case <-w.done:
			return
		}
	}
}

// view is the last known state of a Set.
type view struct {
	set   Set
	files map[string]os.FileInfo // last known state; nil for a missing file
	dirs  map[string]os.FileInfo // watched directories, as they were when the watch was added
}

// sameVersion reports whether two states of a path are the same version of a file.
func sameVersion(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func newView(s Set) *view {
	v := &view{set: s, files: make(map[string]os.FileInfo), dirs: make(map[string]os.FileInfo)}
	for _, f := range s.Files {
		v.files[f], _ = os.Stat(f)
	}
	return v
}

// inherit takes over the watches of an old view and removes those that are no longer needed.
func (v *view) inherit(old *view, fs *fsnotify.Watcher) {
	for dir, info := range old.dirs {
		if slices.Contains(v.set.Dirs, dir) {
			v.dirs[dir] = info
		} else if fs != nil {
			fs.Remove(dir)
		}
	}
}

// watch adds watches for directories that have appeared or were replaced. It reports whether any
// directory has appeared, was replaced or has vanished.
func (v *view) watch(fs *fsnotify.Watcher) (more bool) {
	for _, dir := range v.set.Dirs {
		info, err := os.Stat(dir)
		was := v.dirs[dir]
		switch {
		case err != nil:
			delete(v.dirs, dir)
			more = more || was != nil
		case was != nil && os.SameFile(was, info):
		default:
			if fs != nil {
				fs.Remove(dir) // any watch of an earlier directory of that name
				fs.Add(dir)    // if that fails, the directory is still polled
			}
			v.dirs[dir], more = info, true
		}
	}
	return more
}

// poll reports whether anything has changed since the last poll.
func (v *view) poll(fs *fsnotify.Watcher) (different bool) {
	different = v.watch(fs)
	for f, was := range v.files {
		if now, _ := os.Stat(f); !sameVersion(now, was) {
			v.files[f], different = now, true
		}
	}
	return different
}

// isRelevant reports whether an event may concern the set.
func (v *view) isRelevant(e fsnotify.Event) bool {
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		return true
	}
	_, file := v.files[filepath.Clean(e.Name)]
	return file && e.Has(fsnotify.Write)
}

// Equal reports whether two sets are the same, in the same order.
func (s Set) Equal(t Set) bool { return slices.Equal(s.Files, t.Files) && slices.Equal(s.Dirs, t.Dirs) }
