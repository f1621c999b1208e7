package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/filewatch"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Loaded is what reading the files of a project has come to.
type Loaded struct {
	Tree   *spec.Tree // nil if there is an error
	Config fleet.Config
	Watch  filewatch.Set // in which a change may change all this, also if there is an error
	Err    error
}

// retryEvery is how often files that were refused are read again without having
// changed: what they name may be there by then.
const retryEvery = 30 * time.Second

// rejection is a version of the files that was refused.
type rejection struct{ revision, reason string }

// Reload is part of api.Patrols.
func (c *Controller) Reload(ctx context.Context) (api.Reloaded, error) {
	if c.opts.Load == nil {
		return api.Reloaded{}, fmt.Errorf("%w: this daemon has no file to read", api.ErrConflict)
	}
	_, answer, err := c.reload(ctx, true)
	return answer, err
}

// reload reads the files and, if they are good and others than those in force,
// applies them. Files that are not change nothing; that is told once for each
// version, and again if asked. It returns what to watch.
func (c *Controller) reload(ctx context.Context, asked bool) (filewatch.Set, api.Reloaded, error) {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	l := c.opts.Load()
	now := c.fleet().Config
	answer := api.Reloaded{Revision: now.Revision}
	if l.Err == nil && l.Config.Revision == now.Revision && now.Revision != "" {
		c.forgive()
		return l.Watch, answer, nil
	}
	var changes spec.Changes
	err := l.Err
	if err == nil {
		select {
		case <-c.down:
			return l.Watch, answer, api.ErrStopping
		default:
		}
		l.Config.LoadedAt = time.Now()
		c.patrols.watchDrift()
		changes, err = c.apply(c.background.ctx, l.Tree, l.Config) // the caller may leave
	}
	if err != nil {
		c.reject(rejection{l.Config.Revision, err.Error()}, asked)
		return l.Watch, answer, fmt.Errorf("%w: the file was rejected, and the previous version stays in force:\n%w",
			api.ErrConflict, err)
	}
	c.forgive()
	c.awaitEffect(ctx, asked)
	answer, paths := summary(l.Config.Revision, changes, c.patrols.drift())
	c.log.Append(event.Event{
		Type: event.ConfigReloaded, Actor: "controller", Message: "config reloaded: " + answer.String(),
	}.With(map[string]any{
		"revision": answer.Revision, "added": answer.Added, "removed": answer.Removed, "renewed": answer.Renewed,
		"later":   answer.Later,
		"amended": answer.Amended, "paths": paths,
	}))
	return l.Watch, answer, nil
}

// effectTime is how long the news of a reload waits for its effect, where nobody
// waits for it.
const effectTime = 5 * time.Second

// awaitEffect waits until the patrol has done what follows from a reload; not
// for ever, as the end of the wait is no reason to say that it was not done.
func (c *Controller) awaitEffect(ctx context.Context, asked bool) {
	if !asked {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, effectTime)
		defer cancel()
	}
	c.patrols.settled(ctx)
}

// summary is what has become of changes, with the paths by kind. drift is what
// the patrol has done about agents that cannot change without a restart.
func summary(revision string, changes spec.Changes, drift map[string]restartTime) (api.Reloaded, map[string][]string) {
	paths := map[string][]string{"added": changes.Added, "removed": changes.Removed}
	for _, path := range changes.Changed {
		kind := "amended"
		switch drift[path] {
		case restartNow:
			kind = "renewed"
		case restartLater:
			kind = "later"
		}
		paths[kind] = append(paths[kind], path)
	}
	return api.Reloaded{
		Revision: revision, Changed: true, Added: len(paths["added"]), Removed: len(paths["removed"]),
		Renewed: len(paths["renewed"]), Later: len(paths["later"]), Amended: len(paths["amended"]),
	}, paths
}

// reject notes that files were refused.
func (c *Controller) reject(r rejection, tell bool) {
	c.mu.Lock()
	tell = tell || c.rejected == nil || *c.rejected != r
	c.rejected = &r
	c.mu.Unlock()
	if !tell {
		return
	}
	c.opts.Logger.Error("the file was rejected, and the previous version stays in force", "error", r.reason)
	first, _, _ := strings.Cut(r.reason, "\n")
	c.log.Append(event.Event{
		Type: event.ConfigRejected, Actor: "controller",
		Message: "config rejected, the last one stays in force: " + first,
	}.With(map[string]string{"revision": r.revision, "reason": r.reason}))
}

// forgive forgets that files were refused: those that are there now are in force.
func (c *Controller) forgive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected = nil
}

// refused is why the files that are there now are not in force; "" if they are.
func (c *Controller) refused() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected == nil {
		return ""
	}
	return c.rejected.reason
}

// keepCurrent reloads when the files change, or when somebody asks by hurry.
func (c *Controller) keepCurrent(ctx context.Context, first filewatch.Set, hurry <-chan struct{}) {
	w := filewatch.New(first, c.opts.Logger)
	defer w.Close()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for set := first; ; {
		next, _, err := c.reload(ctx, false)
		if ctx.Err() != nil || errors.Is(err, api.ErrStopping) {
			return
		}
		if !next.Equal(set) {
			w.Watch(next)
			set = next
			continue // what has changed before it was watched
		}
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-w.Changed():
			case <-hurry:
			case <-tick.C:
				waiting = c.refused() == ""
			case <-ctx.Done():
				return
			}
		}
	}
}
