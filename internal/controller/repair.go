package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
)

const (
	// repairInterval is the time between two checks of the daemon's files.
	repairInterval = 2 * time.Second
	// slotPauseFactor is how many times as long as a check of all slots the pause after it is, if that is
	// more than repairInterval: a large fleet at rest costs at most 1 % of a core.
	slotPauseFactor  = 100
	longestSlotPause = 30 * time.Second
)

// repairs restores the files of a running daemon that somebody removes.
type repairs struct {
	*Controller
	failed   map[event.Type]string // the last error of each repair, which is logged once
	damaged  map[string]bool       // records of the store that were reported
	slotsDue time.Time             // of the next check of the slots
}

// run repairs until ctx ends.
func (r *repairs) run(ctx context.Context) {
	r.failed, r.damaged = make(map[event.Type]string), make(map[string]bool)
	tick := time.NewTicker(repairInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.opts.Restored:
			r.report(event.SocketRestored, "", "the socket was deleted and has been created again")
		case <-tick.C:
			r.all(ctx)
		}
	}
}

// all repairs everything once.
func (r *repairs) all(ctx context.Context) {
	r.one(ctx, event.LockRestored, "the lock file was removed and has been created again",
		func(context.Context) (bool, error) { return r.opts.Lock.Repair() })
	if s, ok := r.opts.Store.(interface {
		Maintain(context.Context) (bool, error)
	}); ok {
		r.one(ctx, event.StoreRestored, "the files of the store were removed, replaced or cut; all that "+
			"was in it is in a new one", s.Maintain)
	}
	for _, key := range damagedRecords(r.opts.Store) {
		if !r.damaged[key] {
			r.damaged[key] = true
			r.report(event.StoreDamaged, "", damagedMessage(key))
		}
	}
	r.slots()
}

// slots repairs the slots of agents and jobs, unless that is not due yet.
func (r *repairs) slots() {
	begun := time.Now()
	if begun.Before(r.slotsDue) {
		return
	}
	if r.opts.Jobs != nil {
		r.opts.Jobs.Repair() // without events: its slots are not those of agents
	}
	for _, rt := range r.opts.Runtimes {
		if rt, ok := rt.(interface{ Repair() []string }); ok {
			for _, path := range rt.Repair() {
				r.report(event.SlotRestored, path, path+": the files of its slot were removed; its shim has "+
					"created them again; the earlier output is lost")
			}
		}
	}
	now := time.Now()
	r.slotsDue = now.Add(min(slotPauseFactor*now.Sub(begun), longestSlotPause))
}

// one carries out a repair and reports what it has restored.
func (r *repairs) one(
	ctx context.Context, what event.Type, message string, repair func(context.Context) (restored bool, err error),
) {
	restored, err := repair(ctx)
	switch {
	case restored && err != nil: // a part is lost
		r.report(event.StoreDamaged, "", err.Error())
	case restored:
		delete(r.failed, what)
		r.report(what, "", message)
	case err == nil:
		delete(r.failed, what)
	case err.Error() != r.failed[what] && ctx.Err() == nil:
		r.opts.Logger.Error("cannot restore what was removed", "error", err)
		r.failed[what] = err.Error()
	}
}

func (r *repairs) report(what event.Type, path, message string) {
	e := event.Event{Type: what, Path: path, Actor: "controller", Message: message}
	if path != "" {
		e.Incarnation = r.tree.LastIncarnation(path)
	}
	r.opts.Logger.Warn(message)
	r.log.Append(e)
}

// damagedRecords returns the keys of records that the store has found to be damaged.
func damagedRecords(s store.Store) []string {
	if s, ok := s.(interface{ Damaged() []string }); ok {
		return s.Damaged()
	}
	return nil
}

func damagedMessage(key string) string {
	return fmt.Sprintf("record %s is damaged and is left out; coppice down and coppice doctor --fix remove "+
		"it, a backup may have it", key)
}
