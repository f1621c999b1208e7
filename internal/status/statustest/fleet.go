// Package statustest lets tests of clients run without a daemon: its Fleet answers with
// the values that a test has prepared.
package statustest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/internal/usage"
)

// Fleet is a scripted daemon. Its methods may be called at any time.
type Fleet struct {
	api.Access // what is not scripted

	// OnAct, OnDown and OnAttach, if set before the first call, do what the
	// methods of these names should; each call of Act and Down is noted in any case.
	OnAct    func(ctx context.Context, path string, action control.Action) error
	OnDown   func(keep bool) error
	OnAttach func(ctx context.Context, path string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each change
	status  status.Status
	nodes   []status.Node
	why     map[string]status.Explanation
	events  []event.Event
	lines   map[string][]string
	begun   map[string]string // lines that have no end yet
	calls   []string
	err     error
}

// New returns a fleet of these nodes, the root first.
func New(nodes ...status.Node) *Fleet {
	return &Fleet{changed: make(chan struct{}), nodes: nodes, why: map[string]status.Explanation{},
		lines: map[string][]string{}, begun: map[string]string{}}
}

func (f *Fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// SetStatus sets the answer of Status.
func (f *Fleet) SetStatus(s status.Status) { f.change(func() { f.status = s }) }

// SetNode replaces the node of that path.
func (f *Fleet) SetNode(n status.Node) {
	f.change(func() {
		for i := range f.nodes {
			if f.nodes[i].Path == n.Path {
				f.nodes[i] = n
				return
			}
		}
		f.nodes = append(f.nodes, n)
	})
}

// SetExplanation sets the answer of Explain for its node.
func (f *Fleet) SetExplanation(x status.Explanation) { f.change(func() { f.why[x.Node.Path] = x }) }

// SetError makes all methods fail, until it is set to nil.
func (f *Fleet) SetError(err error) { f.change(func() { f.err = err }) }

// Publish appends an event and gives it the next number unless it has one.
func (f *Fleet) Publish(e event.Event) {
	f.change(func() {
		if e.Seq == 0 {
			e.Seq = uint64(len(f.events) + 1)
		}
		f.events = append(f.events, e)
	})
}

// Print appends a line to the output of an agent.
func (f *Fleet) Print(path, line string) {
	f.change(func() { f.lines[path] = append(f.lines[path], line) })
}

// Calls are the calls of Act and Down so far, such as "stop app/db" and "down keep".
func (f *Fleet) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Changed is closed at the next change, which a call of Act or Down is, too.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Owner implements api.Access: all requests come from people.
func (f *Fleet) Owner(int) (*token.Caller, error) { return nil, nil }

// RunOf implements api.Access: none of them comes from an order.
func (f *Fleet) RunOf(int) string { return "" }

// Register has a server answer the routes of packages status, control, feed and output.
func (f *Fleet) Register(s *api.Server) {
	feed.Handle(s, f.Events)
	output.HandleLogs(s, f.Logs)
	output.HandleUnfinished(s, f.Unfinished)
	api.HandleAttach(s, f.Attach)
	control.Register(s, f)
	(&usage.Service{
		Nodes:  func(ctx context.Context, path string) ([]status.Node, error) { return f.Nodes(ctx, path) },
		Host:   "n1", // as in Sample
		Limits: func(string) spec.Limits { return spec.Limits{} },
	}).Register(s)
	status.Get.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) (status.Status, error) {
		return f.Status(ctx)
	})
	status.List.Handle(s, func(ctx context.Context, _ token.Caller, r status.ListRequest) ([]status.Node, error) {
		return f.Nodes(ctx, r.Path)
	})
	status.Explain.Handle(s,
		func(ctx context.Context, _ token.Caller, r status.ExplainRequest) (status.Explanation, error) {
			return f.Explain(ctx, r.Path)
		})
}

// Status returns what SetStatus has set.
func (f *Fleet) Status(context.Context) (status.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Summary = maps.Clone(s.Summary)
	return s, f.err
}

// find returns the index of a node, whose first segment may be left out.
func (f *Fleet) find(path string) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	for i, n := range f.nodes {
		if _, short, _ := strings.Cut(n.Path, "/"); n.Path == path || short == path && short != "" {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s: %w", path, api.ErrNotFound)
}

// Nodes returns the nodes at and below a path.
func (f *Fleet) Nodes(_ context.Context, path string) ([]status.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if path == "" {
		return slices.Clone(f.nodes), f.err
	}
	i, err := f.find(path)
	if err != nil {
		return nil, err
	}
	var below []status.Node
	for _, n := range f.nodes {
		if n.Path == f.nodes[i].Path || strings.HasPrefix(n.Path, f.nodes[i].Path+"/") {
			below = append(below, n)
		}
	}
	return below, nil
}

// Explain returns what SetExplanation has set for a node.
func (f *Fleet) Explain(_ context.Context, path string) (status.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(path)
	if err != nil {
		return status.Explanation{}, err
	}
	x := f.why[f.nodes[i].Path]
	x.Node = f.nodes[i]
	return x, nil
}

// Act implements control.Actor.
func (f *Fleet) Act(ctx context.Context, path string, action control.Action) (done control.Acted, err error) {
	f.change(func() {
		f.calls = append(f.calls, string(action)+" "+path)
		_, err = f.find(path)
	})
	if err == nil && f.OnAct != nil {
		err = f.OnAct(ctx, path, action)
	}
	return control.Acted{Changed: 1}, err
}

// Down implements control.Actor.
func (f *Fleet) Down(_ context.Context, keep bool) (err error) {
	f.change(func() {
		f.calls = append(f.calls, map[bool]string{false: "down", true: "down keep"}[keep])
		err = f.err
	})
	if err == nil && f.OnDown != nil {
		err = f.OnDown(keep)
	}
	return err
}

// Events yields what was published.
func (f *Fleet) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for i := 0; ; {
			f.mu.Lock()
			events, changed, err := f.events[i:], f.changed, f.err
			f.mu.Unlock()
			if i == 0 && q.Last > 0 {
				i = max(0, len(events)-q.Last) // of all, whether they match or not
				events = events[i:]
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, e := range events {
				if i++; e.Seq > q.After && q.Match(e) && !yield(e, nil) {
					return
				}
			}
			if !q.Follow {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(event.Event{}, ctx.Err())
				return
			}
		}
	}
}

// Logs yields what was printed. A position is how many lines of an agent came before.
func (f *Fleet) Logs(ctx context.Context, q output.Query) iter.Seq2[output.Line, error] {
	return func(yield func(output.Line, error) bool) {
		seen := make(map[string]int)
		for live := false; ; live = true {
			lines, changed, err := f.printed(q.Paths)
			if err != nil {
				yield(output.Line{}, err)
				return
			}
			for _, path := range slices.Sorted(maps.Keys(lines)) {
				all := lines[path]
				if _, ok := seen[path]; !ok && q.Lines >= 0 {
					seen[path] = max(0, len(all)-q.Lines)
				}
				if after, err := strconv.Atoi(q.After[path]); err == nil && !live {
					seen[path] = after
				}
				for ; seen[path] < len(all); seen[path]++ {
					if !yield(output.Line{Path: path, Line: all[seen[path]], Position: strconv.Itoa(seen[path] + 1)},
						nil) {
						return
					}
				}
			}
			if !q.Follow || !live && !yield(output.Line{Live: true}, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(output.Line{}, ctx.Err())
				return
			}
		}
	}
}

// Begin sets the beginning of the line that an agent is writing.
func (f *Fleet) Begin(path, text string) { f.change(func() { f.begun[path] = text }) }

// Unfinished yields what Begin says.
func (f *Fleet) Unfinished(ctx context.Context, path string) iter.Seq2[output.UnfinishedLine, error] {
	return func(yield func(output.UnfinishedLine, error) bool) {
		for last := ""; ; {
			f.mu.Lock()
			text, changed := f.begun[path], f.changed
			f.mu.Unlock()
			if text != last && !yield(output.UnfinishedLine{Text: text}, nil) {
				return
			}
			last = text
			select {
			case <-changed:
			case <-ctx.Done():
				yield(output.UnfinishedLine{}, ctx.Err())
				return
			}
		}
	}
}

// printed returns the output of the agents at and below some paths.
func (f *Fleet) printed(paths []string) (lines map[string][]string, changed chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines = make(map[string][]string)
	if len(paths) == 0 {
		paths = []string{""}
	}
	for _, path := range paths {
		above := ""
		if path != "" {
			i, err := f.find(path)
			if err != nil {
				return nil, nil, err
			}
			above = f.nodes[i].Path
		}
		for _, n := range f.nodes {
			if said := f.lines[n.Path]; n.Path == above || strings.HasPrefix(n.Path+"/", above+"/") || above == "" {
				lines[n.Path] = said
			}
		}
	}
	return lines, f.changed, f.err
}

// Attach does what OnAttach does.
func (f *Fleet) Attach(ctx context.Context, path string, v api.Viewer) error {
	f.mu.Lock()
	_, err := f.find(path)
	f.mu.Unlock()
	if err != nil || f.OnAttach == nil {
		return err
	}
	return f.OnAttach(ctx, path, v.Input, v.Output, v.Sizes)
}
