// Package filewatch tells when files may have changed. It watches the
// directories that they are in, so that editors that write a new file and
// rename it are seen, and looks at the files themselves now and then: that
// finds what the system does not tell (a file system of another machine, a
// directory that was deleted and has come back, no watches left). The
// receiver of a notice reads the files again; nothing may have changed.
package filewatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times.
const (
	// Quiet is how long nothing may happen before somebody is told: several
	// changes in a row are one.
	Quiet = 200 * time.Millisecond
	// maxDelay is how long changes that do not end are held back.
	maxDelay = 2 * time.Second
	// Every is how often the files are looked at.
	Every = 2 * time.Second
)

// Set is what is watched.
type Set struct {
	// Files are looked at. Of other files only that they come, go or are
	// renamed matters: a directory may hold what is written all the time.
	Files []string
	// Dirs are watched. Those that do not exist are as soon as they do.
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

// New begins to watch. Where the system has no watches left, the files are looked at only.
func New(s Set, logger *slog.Logger) *Watcher {
	w := &Watcher{
		changed: make(chan struct{}, 1), sets: make(chan *change), done: make(chan struct{}),
		ended: make(chan struct{}), logger: logger,
	}
	go w.run(newView(s))
	return w
}

// Changed receives when something may have changed since it received last.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// change is another Set, which is watched when applied is closed.
type change struct {
	set     Set
	applied chan struct{}
}

// Watch replaces what is watched. What changes after it has returned is
// noticed: call it before reading.
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

// Close ends it. It does not wait for a file system that hangs.
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
	var since time.Time // of the first change without a notice
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
		case <-errors: // such as more events than the system holds
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

// view is what is known of a Set.
type view struct {
	set   Set
	files map[string]os.FileInfo // as they were seen last; nil for one that does not exist
	dirs  map[string]os.FileInfo // that are watched, as they were then
}

// sameVersion reports whether two looks at a path have seen the same version of a file.
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

// inherit takes over what is watched already, and stops watching the rest.
func (v *view) inherit(old *view, fs *fsnotify.Watcher) {
	for dir, info := range old.dirs {
		if slices.Contains(v.set.Dirs, dir) {
			v.dirs[dir] = info
		} else if fs != nil {
			fs.Remove(dir)
		}
	}
}

// watch watches the directories that are there and not watched yet, also those
// that are others than before under the same name. It reports whether there were any.
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
				fs.Remove(dir) // a watch of an earlier directory of that name; its error is that there is none
				fs.Add(dir)    // if that fails, the directory is still polled
			}
			v.dirs[dir], more = info, true
		}
	}
	return more
}

// poll reports whether anything looks different from the last time.
func (v *view) poll(fs *fsnotify.Watcher) (different bool) {
	different = v.watch(fs)
	for f, was := range v.files {
		if now, _ := os.Stat(f); !sameVersion(now, was) {
			v.files[f], different = now, true
		}
	}
	return different
}

// isRelevant reports whether an event of the system is about what is watched.
func (v *view) isRelevant(e fsnotify.Event) bool {
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		return true
	}
	_, file := v.files[filepath.Clean(e.Name)]
	return file && e.Has(fsnotify.Write)
}

// Equal reports whether two sets are the same, in the same order.
func (s Set) Equal(t Set) bool { return slices.Equal(s.Files, t.Files) && slices.Equal(s.Dirs, t.Dirs) }
