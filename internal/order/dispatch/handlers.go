package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/token"
)

// handlers answer requests about orders.
type handlers struct{ d *Dispatcher }

// Register adds the handlers of all routes to a server.
func (d *Dispatcher) Register(s *api.Server) {
	h := handlers{d}
	d.RegisterReadOnly(s)
	Check.Handle(s, h.check)
	GetRun.Handle(s, h.run)
	Act.Handle(s, h.act)
}

// RegisterReadOnly adds the handlers of the routes that need no running daemon.
func (d *Dispatcher) RegisterReadOnly(s *api.Server) {
	h := handlers{d}
	List.Handle(s, h.list)
	Get.Handle(s, h.get)
	Next.Handle(s, h.next)
	Runs.Handle(s, h.runs)
}

// maxCount bounds counts in requests.
const maxCount = 1000

// count returns the number that a request asks for.
func count(n, otherwise uint64) int { return int(min(cmp.Or(n, otherwise), maxCount)) }

// canFire returns an error unless the dispatcher fires orders.
func (h handlers) canFire() error {
	if h.d.o.Jobs == nil {
		return fmt.Errorf("%w: orders do not fire here", api.ErrConflict)
	}
	return nil
}

// failed returns the error of the API for an error about an order.
func (h handlers) failed(name string, err error) error {
	switch {
	case errors.Is(err, order.ErrUnknown):
		hint := "coppice order ls lists them"
		var names []string
		for _, v := range h.d.List() {
			names = append(names, v.Order.Name)
		}
		if near := suggest.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return api.NewError(api.ErrNotFound, fmt.Sprintf("there is no order %q; %s", name, hint))
	case errors.Is(err, order.ErrRunning):
		return fmt.Errorf("%w: order %s is running, and its overlap is skip; coppice order stop ends it",
			api.ErrConflict, name)
	case errors.Is(err, order.ErrCaused), errors.Is(err, order.ErrSuspended), store.Refused(err):
		return api.NewError(api.ErrConflict, fmt.Sprintf("order %s: %v", name, err))
	}
	return err
}

func (h handlers) list(context.Context, token.Caller, api.None) (all []Info, err error) {
	for _, v := range h.d.List() {
		all = append(all, info(v))
	}
	return all, nil
}

func (h handlers) get(_ context.Context, _ token.Caller, req Name) (Info, error) {
	v, err := h.d.Show(req.Name)
	if err != nil {
		return Info{}, h.failed(req.Name, err)
	}
	return info(v), nil
}

func (h handlers) check(ctx context.Context, _ token.Caller, req Name) (Info, error) {
	if err := h.canFire(); err != nil {
		return Info{}, err
	}
	v, said, err := h.d.Check(ctx, req.Name)
	if err != nil {
		return Info{}, h.failed(req.Name, err)
	}
	i := info(v)
	for _, line := range said {
		i.Said = append(i.Said, plaintext.Line(line))
	}
	return i, nil
}

func (h handlers) next(_ context.Context, _ token.Caller, req NextRequest) (Times, error) {
	times, err := h.d.Next(req.Name, count(req.Count, 5))
	switch {
	case errors.Is(err, order.ErrUnknown):
		return Times{}, h.failed(req.Name, err)
	case err != nil:
		return Times{}, fmt.Errorf("%w: the next times of order %s are unknown: %w", api.ErrConflict, req.Name, err)
	}
	return Times{Times: append([]time.Time{}, times...)}, nil
}

func (h handlers) runs(ctx context.Context, _ token.Caller, req RunsRequest) (all []RunInfo, err error) {
	past, err := h.d.History(ctx, req.Name, count(req.Count, 20))
	if err != nil {
		return nil, h.failed(req.Name, err)
	}
	for _, p := range past {
		all = append(all, runInfo(p))
	}
	return all, nil
}

func (h handlers) run(ctx context.Context, _ token.Caller, req RunRequest) (RunInfo, error) {
	if err := h.canFire(); err != nil {
		return RunInfo{}, err
	}
	n, err := ledger.ParseID(idPrefix, req.ID)
	if err != nil {
		return RunInfo{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	if req.Wait {
		if _, err := h.d.Wait(ctx, n); err != nil && !errors.Is(err, order.ErrUnknown) {
			return RunInfo{}, api.NewError(api.ErrStopping, err.Error())
		}
	}
	past, err := h.d.One(ctx, n)
	if err != nil {
		return RunInfo{}, api.NewError(api.ErrNotFound, fmt.Sprintf("there is no run %s, or it is no longer kept; "+
			"coppice order history lists them", req.ID))
	}
	return runInfo(past), nil
}

func (h handlers) act(ctx context.Context, _ token.Caller, req ActRequest) (done ActResult, err error) {
	if err := cmp.Or(api.CheckText("name", req.Name), api.CheckText("by", req.By), h.canFire()); err != nil {
		return done, err
	}
	by := cmp.Or(req.By, "user")
	if name := api.OrderOf(ctx); name != "" {
		by = order.PathOf(name)
	}
	switch req.Action {
	case RunOrder:
		var n uint64
		n, err = h.d.Run(ctx, req.Name, by)
		if done.Queued = err == nil && n == 0; n > 0 {
			done.Run = ID(n)
		}
	case StopOrder:
		if _, err = h.d.Show(req.Name); err == nil {
			done.Stopped = h.d.Stop(req.Name)
		}
	case EnableOrder, DisableOrder:
		err = h.d.Enable(ctx, req.Name, req.Action == EnableOrder)
	default:
		return done, fmt.Errorf("%w: action is %.100q, expected one of %v", api.ErrInvalid, req.Action, Actions())
	}
	return done, h.failed(req.Name, err)
}

// Counts summarizes the orders. It returns nil if there are none.
func (d *Dispatcher) Counts() *order.Counts {
	all := d.List()
	if len(all) == 0 {
		return nil
	}
	counts := &order.Counts{Total: len(all)}
	for _, v := range all {
		counts.Running += v.Running
		if !v.Enabled {
			counts.Disabled++
		}
		if r := v.Last; r != nil && r.Status.Over() && r.Status != order.Completed {
			counts.Failing++
		}
		if next := v.Next; v.Enabled && !next.IsZero() && (counts.NextAt == nil || next.Before(*counts.NextAt)) {
			counts.NextAt, counts.Next = &next, v.Order.Name
		}
	}
	return counts
}

func info(v View) Info {
	o := v.Order
	i := Info{
		Name: o.Name, Description: o.Description, Exec: o.Command, Match: "any", Gates: []GateInfo{},
		Enabled: v.Enabled, ByHand: string(v.State.ByHand), Due: v.Due, Reason: v.Why,
		Running: v.Running, Pending: v.Pending, Runs: v.State.Runs,
		Skips: v.State.Skips, Skipped: v.State.Skipped, SkippedAt: timePtr(v.State.SkippedAt),
		Overlap: o.Overlap.String(), CatchUp: o.CatchUp, Timeout: o.Timeout.Seconds(), Retries: o.Retries,
		Dir: o.Dir, Source: o.Source,
	}
	if o.All {
		i.Match = "all"
	}
	if v.Enabled {
		i.NextAt = timePtr(v.Next)
	}
	if o.Task != nil {
		i.Task, i.Pool = o.Task.Title, o.Task.Pool
	}
	for _, g := range v.Gates {
		i.Gates = append(i.Gates, GateInfo{
			Kind: g.Gate.Kind.String(), Text: g.Gate.String(), Open: g.Open, Reason: g.Reason, NextAt: timePtr(g.Next),
		})
	}
	if v.Last != nil {
		i.Last = new(runInfo(RunWithOutput{Run: *v.Last}))
	}
	return i
}

func runInfo(p RunWithOutput) RunInfo {
	i := RunInfo{
		ID: ID(p.Number), Order: p.Order, Status: string(p.Status), Reason: p.Reason, By: p.By, Attempt: p.Attempt,
		FiredAt: p.FiredAt, StartedAt: timePtr(p.StartedAt), EndedAt: timePtr(p.EndedAt), RetryAt: timePtr(p.RetryAt),
		Duration: p.Duration.Seconds(), Code: p.Code, Signal: p.Signal, Error: p.Error, Task: p.Task, Output: p.Output,
	}
	if p.Events != nil {
		i.Events = p.Events.Count
	}
	return i
}

// timePtr returns a time for JSON; nil if it is zero.
func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.Round(0))
}
