package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/status"
)

// shownRuns is the number of runs in the strip of an order.
const shownRuns = 20

// orderShown is an order with its last runs.
type orderShown struct {
	dispatch.Info
	Strip    []runShown // oldest first
	Operator bool
}

// runShown is a run of an order.
type runShown struct {
	dispatch.RunInfo
	Tone status.Tone
}

// runTone returns the colour of a run.
func runTone(r dispatch.RunInfo) status.Tone {
	switch r.Status {
	case "completed":
		return status.Good
	case "running", "retrying":
		return status.Busy
	case "stopped":
		return status.Quiet
	}
	return status.Bad
}

// triggered is an agent that triggers start.
type triggered struct {
	status.Node
	Operator bool
}

// pipelineShown is a pipeline with its workers.
type pipelineShown struct {
	workers.Detail
	Operator bool
}

// workPage shows pipelines, orders and agents that triggers start.
func (s *pages) workPage(ctx context.Context, q query) (*page, error) {
	operates := q.role == operator
	var pipelines []pipelineShown
	infos, err := workers.List.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		detail, err := workers.Get.Call(ctx, s.Client, workers.Name{Name: info.Name})
		if err != nil {
			return nil, err
		}
		pipelines = append(pipelines, pipelineShown{detail, operates})
	}
	all, err := dispatch.List.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	orders := make([]orderShown, 0, len(all))
	for _, info := range all {
		o, err := s.orderShown(ctx, info, operates)
		if err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	nodes, err := s.hub.allNodes(ctx, q.at)
	if err != nil {
		return nil, err
	}
	var aides []triggered
	for _, n := range nodes {
		if n.Aide != nil {
			aides = append(aides, triggered{n, operates})
		}
	}
	p := &page{title: "Orders, pipelines and triggers", nav: "work", template: "work"}
	p.parts, err = s.parts(map[string]any{"pipelines": pipelines, "orders": orders, "triggers": aides})
	return p, err
}

// orderShown returns an order with its last runs.
func (s *pages) orderShown(ctx context.Context, info dispatch.Info, operates bool) (orderShown, error) {
	o := orderShown{Info: info, Operator: operates}
	runs, err := dispatch.Runs.Call(ctx, s.Client, dispatch.RunsRequest{Name: info.Name, Count: shownRuns})
	if err != nil {
		return o, err
	}
	slices.SortFunc(runs, func(a, b dispatch.RunInfo) int { return a.FiredAt.Compare(b.FiredAt) })
	for _, r := range runs {
		o.Strip = append(o.Strip, runShown{r, runTone(r)})
	}
	return o, nil
}

// orderPage shows an order, or one of its runs: /orders/NAME?run=ID.
func (s *pages) orderPage(ctx context.Context, q query) (*page, error) {
	info, err := dispatch.Get.Call(ctx, s.Client, dispatch.Name{Name: strings.TrimSuffix(q.rest, "/")})
	if err != nil {
		return nil, err
	}
	o, err := s.orderShown(ctx, info, q.role == operator)
	if err != nil {
		return nil, err
	}
	shown := map[string]any{"order": o}
	if id := cmp.Or(q.get("run"), lastRun(o)); id != "" {
		run, err := dispatch.GetRun.Call(ctx, s.Client, dispatch.RunRequest{ID: id})
		if err != nil {
			return nil, err
		}
		shown["order-run"] = runShown{run, runTone(run)}
	} else {
		shown["order-run"] = nil
	}
	p := &page{title: "Order " + info.Name, nav: "work", template: "order-page"}
	p.parts, err = s.parts(shown)
	return p, err
}

// lastRun returns the id of the last run of an order; empty if there is none.
func lastRun(o orderShown) string {
	if len(o.Strip) == 0 {
		return ""
	}
	return o.Strip[len(o.Strip)-1].ID
}
