package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/filewatch"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Loaded is the result of reading the files of a project.
type Loaded struct {
	Tree   *spec.Tree // nil if there is an error
	Config fleet.Config
	Watch  filewatch.Set // the files that a change of any of this starts in, also after an error
	Err    error
}

// ReloaderOptions are the parts of a daemon that a Reloader uses.
type ReloaderOptions struct {
	Load  func() Loaded // reads the files; nil if there are none
	Fleet func() *fleet.Fleet
	// Apply makes a tree the desired state. After an error nothing has changed.
	Apply    func(*spec.Tree, fleet.Config) (spec.Changes, error)
	Loop     *Loop
	Append   func(event.Event)
	Logger   *slog.Logger
	Stopping <-chan struct{}
}

// Reloader reads the configuration again, when its files change and on request, and applies
// it. A file with an error changes nothing: the last valid one stays in force.
type Reloader struct {
	o       ReloaderOptions
	reading sync.Mutex // held while the files are read and applied

	mu       sync.Mutex
	rejected *rejection // the files as they are now; nil if they are in force
}

// rejection is a version of the files with an error.
type rejection struct{ revision, reason string }

const (
	// retryInterval is the time after which rejected files are read again although they have not
	// changed: what they name may exist by then.
	retryInterval = 30 * time.Second
	// effectTimeout bounds the wait for the effect of a reload that no client waits for.
	effectTimeout = 5 * time.Second
)

// NewReloader returns a Reloader whose files are in force.
func NewReloader(o ReloaderOptions) *Reloader { return &Reloader{o: o} }

// Reload reads the files now. An error is logged even if it was before.
func (r *Reloader) Reload(ctx context.Context) (Reloaded, error) {
	if r.o.Load == nil {
		return Reloaded{}, fmt.Errorf("%w: this daemon has no file to read", api.ErrConflict)
	}
	_, answer, err := r.reload(ctx, true)
	return answer, err
}

// Check is Reload on behalf of no client: an error is logged once for each version of the
// files. It returns what to watch.
func (r *Reloader) Check(ctx context.Context) (filewatch.Set, Reloaded, error) {
	return r.reload(ctx, false)
}

// reload reads the files and applies them unless they are in force. An error is logged once
// for each version, and again if asked. It returns what to watch.
func (r *Reloader) reload(ctx context.Context, asked bool) (filewatch.Set, Reloaded, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	l := r.o.Load()
	now := r.o.Fleet().Config
	answer := Reloaded{Revision: now.Revision}
	if l.Err == nil && l.Config.Revision == now.Revision && now.Revision != "" {
		r.clearRejection()
		return l.Watch, answer, nil
	}
	var changes spec.Changes
	err := l.Err
	if err == nil {
		select {
		case <-r.o.Stopping:
			return l.Watch, answer, api.ErrStopping
		default:
		}
		l.Config.LoadedAt = time.Now()
		r.o.Loop.ResetRestarts()
		changes, err = r.o.Apply(l.Tree, l.Config)
	}
	if err != nil {
		r.reject(rejection{l.Config.Revision, err.Error()}, asked)
		return l.Watch, answer, fmt.Errorf("%w: the file was rejected, and the previous version stays in force:\n%w",
			api.ErrConflict, err)
	}
	r.clearRejection()
	r.awaitEffect(ctx, asked)
	answer, paths := summary(l.Config.Revision, changes, r.o.Loop.Restarts())
	r.o.Append(event.Event{
		Type: event.ConfigReloaded, Actor: "controller", Message: "config reloaded: " + answer.String(),
	}.With(map[string]any{
		"revision": answer.Revision, "added": answer.Added, "removed": answer.Removed, "renewed": answer.Renewed,
		"later":   answer.Later,
		"amended": answer.Amended, "paths": paths,
	}))
	return l.Watch, answer, nil
}

// awaitEffect waits until the loop has done what follows from a reload. The end of the wait
// does not mean that it has not.
func (r *Reloader) awaitEffect(ctx context.Context, asked bool) {
	if !asked {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, effectTimeout)
		defer cancel()
	}
	r.o.Loop.AwaitIdle(ctx)
}

// summary counts changes and returns their paths by kind. restarts are those of agents that
// cannot change without one.
func summary(revision string, changes spec.Changes, restarts map[string]Restart) (Reloaded,
	map[string][]string) {
	paths := map[string][]string{"added": changes.Added, "removed": changes.Removed}
	for _, path := range changes.Changed {
		kind := "amended"
		switch restarts[path] {
		case Restarted:
			kind = "renewed"
		case RestartsLater:
			kind = "later"
		}
		paths[kind] = append(paths[kind], path)
	}
	return Reloaded{
		Revision: revision, Changed: true, Added: len(paths["added"]), Removed: len(paths["removed"]),
		Renewed: len(paths["renewed"]), Later: len(paths["later"]), Amended: len(paths["amended"]),
	}, paths
}

// reject notes an error in the files, and logs it if it is new or log is set.
func (r *Reloader) reject(now rejection, log bool) {
	r.mu.Lock()
	log = log || r.rejected == nil || *r.rejected != now
	r.rejected = &now
	r.mu.Unlock()
	if !log {
		return
	}
	r.o.Logger.Error("the file was rejected, and the previous version stays in force", "error", now.reason)
	first, _, _ := strings.Cut(now.reason, "\n")
	r.o.Append(event.Event{
		Type: event.ConfigRejected, Actor: "controller",
		Message: "config rejected, the last one stays in force: " + first,
	}.With(map[string]string{"revision": now.revision, "reason": now.reason}))
}

// clearRejection notes that the files as they are now are in force.
func (r *Reloader) clearRejection() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejected = nil
}

// Rejected returns why the files as they are now are not in force; "" if they are.
func (r *Reloader) Rejected() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rejected == nil {
		return ""
	}
	return r.rejected.reason
}

// Run reloads when the files change, or when hurry has something, until ctx ends.
func (r *Reloader) Run(ctx context.Context, first filewatch.Set, hurry <-chan struct{}) {
	w := filewatch.New(first, r.o.Logger)
	defer w.Close()
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for set := first; ; {
		next, _, err := r.Check(ctx)
		if ctx.Err() != nil || errors.Is(err, api.ErrStopping) {
			return
		}
		if !next.Equal(set) {
			w.Watch(next)
			set = next
			continue // for a change before the files were watched
		}
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-w.Changed():
			case <-hurry:
			case <-tick.C:
				waiting = r.Rejected() == ""
			case <-ctx.Done():
				return
			}
		}
	}
}
