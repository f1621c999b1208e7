package pane

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// Expire ends what runs in the slots of a directory when the deadline of the node has come, in place of keepers that
// were killed or hang. It leaves the agents of the others to them. It returns when all ends are recorded, which a
// daemon does, or after the grace period of all agents.
func Expire(dir string, at deadline.Instant) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !wire.IsMissing(err) {
		return err
	}
	var sweeper proc.Sweeper
	var wg sync.WaitGroup
	for _, e := range entries {
		if e.IsDir() {
			wg.Go(func() { expireSlot(filepath.Join(dir, e.Name()), at, &sweeper) })
		}
	}
	wg.Wait()
	return nil
}

// endPause is the time between two looks whether the end of an agent is recorded.
const endPause = 50 * time.Millisecond

func expireSlot(dir string, at deadline.Instant, sweeper *proc.Sweeper) {
	a := new(agent)
	if err := wire.ReadFile(filepath.Join(dir, StateFile), a, &a.Version); wire.IsMissing(err) {
		return // nothing was ever started
	} else if err != nil {
		a = &agent{} // whatever it is
	}
	g := &guard{dir: dir, at: dir, run: a.Incarnation, sweeper: sweeper}
	gone, leave := awaitKeeper(dir)
	defer leave()
	last := at.Add(deadline.LastGrace(a.Grace) + deadline.Spare)
	for now, err := deadline.Now(); ; now, err = deadline.Now() {
		if g.hasEnded() {
			return
		}
		if err != nil || now >= last || slots.IsClosed(gone) {
			break
		}
		deadline.Wait(gone, min(now.Add(endPause), last))
	}
	select {
	case <-gone:
		g.expire(at, runtime.ErrDeadline)
	default:
		g.kill(a, proc.Family(a.Agent))
	}
}

// hasEnded reports whether the end of the incarnation was recorded, after which nothing of it is left.
func (g *guard) hasEnded() bool {
	r, err := wire.ReadRecord(g.at)
	return err == nil && g.run > 0 && r.Incarnation == g.run
}

// awaitKeeper returns a channel that is closed when the keeper of a slot has ended.
func awaitKeeper(dir string) (gone <-chan struct{}, leave func()) {
	ended := make(chan struct{})
	c, err := Dial(dir)
	switch {
	case wire.IsMissing(err), errors.Is(err, syscall.ECONNREFUSED):
		close(ended)
		return ended, func() {}
	case err != nil: // it may run
		return ended, func() {}
	}
	go func() {
		defer close(ended)
		c.Receive() // nothing comes
	}()
	return ended, func() {
		c.Close()
		<-ended
	}
}
