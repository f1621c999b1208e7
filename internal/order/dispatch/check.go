package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	envCheck     = "COPPICE_ORDER_CHECK="
	sweepTimeout = 5 * time.Second // for the processes that a check has left
	maxChecks    = 8               // that run concurrently
)

// checker runs the checks of condition gates.
type checker struct {
	mark    string // an entry in the environment of all checks of the project
	environ func(declared map[string]string) []string
	logger  *slog.Logger
	slots   chan struct{}
	swept   chan struct{} // closed when the checks of the previous daemon have ended
	// Each check has a number, by which its processes are found.
	number  atomic.Uint64
	sweeper proc.Sweeper
}

func newChecker(o Options) *checker {
	c := &checker{
		environ: o.Environ, logger: o.Logger, slots: make(chan struct{}, maxChecks), swept: make(chan struct{}),
	}
	if o.Jobs != nil {
		c.mark = checkMark(o.Jobs.Dir())
	}
	return c
}

// checkMark returns an environment entry that identifies the checks of a project, by the directory
// of the slots in which its orders run.
func checkMark(dir string) string { return "COPPICE_CHECK=" + wire.Marker(dir) }

// EndChecks ends the checks that a killed daemon has left, where processes can be found.
func EndChecks(ctx context.Context, dir string) error {
	var s proc.Sweeper
	if err := s.Sweep(ctx, checkMark(dir)); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// sweep ends the checks that a killed daemon has left.
func (c *checker) sweep(ctx context.Context) {
	defer close(c.swept)
	if c.mark == "" {
		return
	}
	if err := c.sweeper.Sweep(ctx, c.mark); err != nil && ctx.Err() == nil {
		c.logger.Debug("checks of the last daemon may still run", "error", err)
	}
}

// wait runs the check of an order when there is a slot for it. It reports false for done if
// ctx ends before.
func (c *checker) wait(ctx context.Context, o *spec.Order) (ok, done bool) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return false, false
	}
	ok, _ = c.run(ctx, o)
	return ok, true
}

// run runs the check of an order, and returns its last output.
func (c *checker) run(ctx context.Context, o *spec.Order) (ok bool, last []string) {
	g := o.Gate(order.Condition)
	if g == nil {
		return false, nil
	}
	select {
	case <-c.swept:
	case <-ctx.Done():
		return false, nil
	}
	env := append(c.environ(o.Env), envOrder+"="+o.Name)
	if c.mark != "" {
		one := fmt.Sprintf("%s%s.%d", envCheck, c.mark, c.number.Add(1))
		env = append(env, c.mark, one)
		defer func() { // processes that have left the group of the check
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
			defer cancel()
			c.sweeper.Sweep(ctx, one)
		}()
	}
	p, err := proc.Start(proc.Command{Argv: g.Check, Dir: o.Dir, Env: env}, proc.Output{})
	if err != nil {
		return false, []string{err.Error()}
	}
	select {
	case <-p.Done():
		<-p.Drained()
		return p.Exit().Kind == supervisor.Normal, p.LastOutput()
	case <-time.After(g.Limit):
	case <-ctx.Done():
	}
	p.Kill()
	<-p.Done()
	<-p.Drained()
	return false, p.LastOutput()
}
