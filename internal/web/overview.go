package web

import (
	"context"
	"fmt"
	"html/template"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/status"
)

// count is a number on the overview, with the page that lists what it counts.
type count struct {
	Label, URL string
	Tone       status.Tone
	N          int
}

// need is something that needs a person.
type need struct {
	status.Attention
	ElementID, State string
	Tone             status.Tone
	URL, Next        string
}

// summary is the state of the daemon in short.
type summary struct {
	status.Status
	Counts     []count
	Oldest     string // since when somebody has waited for longest
	Cost       string
	Unknown    int64 // calls of which the cost is not known
	StartedAt  string
	Reconciled string // when the last reconciliation pass has ended
	Agents     int
}

// overview shows what needs a person first.
func (s *pages) overview(ctx context.Context, q query) (*page, error) {
	st, err := status.Get.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	tree, err := s.hub.allNodes(ctx, q.at)
	if err != nil {
		return nil, err
	}
	quotas, err := quota.List.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	report, err := s.costToday(ctx, cost.ByAgent)
	if err != nil {
		return nil, err
	}
	v := summaryOf(st)
	v.Unknown, v.Cost = report.Total.UnknownDollars, "-"
	if report.Total.Dollars != nil && report.Total.Calls > 0 {
		v.Cost = dollarText(*report.Total.Dollars)
	}
	v.count(tree, quotas)
	p := &page{title: "Overview", nav: "overview", template: "overview"}
	parts := map[string]any{"counts": v, "daemon": v}
	if len(st.Nodes) > 0 {
		parts["nodes"] = machinesOf(st.Nodes)
	}
	p.parts, err = s.parts(parts)
	if err != nil {
		return nil, err
	}
	for i, a := range st.Attention {
		n := need{Attention: a, ElementID: fmt.Sprintf("need-%d", i), State: status.StateWords(a.State)}
		n.Tone = status.ToneOf(n.State)
		n.URL = s.whereIs(a, tree)
		if a.NextAt != nil {
			n.Next = stamp(*a.NextAt)
		}
		html, err := s.renderPart("need", n)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part{id: n.ElementID, list: "needs", html: html})
	}
	if len(st.Attention) == 0 {
		p.parts = append(p.parts, part{id: "need-none", list: "needs",
			html: template.HTML(`<li id="need-none" class="none">Nothing needs you.</li>`)})
	}
	return p, nil
}

// machine is a node of the fleet.
type machine struct {
	nodes.Summary
	Tone status.Tone
}

func machinesOf(all []nodes.Summary) (machines []machine) {
	for _, n := range all {
		m := machine{Summary: n, Tone: status.Quiet}
		switch n.State {
		case nodes.Ready:
			m.Tone = status.Good
		case nodes.Draining:
			m.Tone = status.Busy
		case nodes.Lost:
			m.Tone = status.Bad
		}
		machines = append(machines, m)
	}
	return machines
}

// summaryOf returns the state of the daemon, without its uptime, which would change the page all the time.
func summaryOf(st status.Status) summary {
	v := summary{
		Status: st, StartedAt: stamp(st.Controller.StartedAt), Reconciled: stamp(st.Controller.ReconciledAt),
	}
	v.Controller.Uptime = 0
	return v
}

// whereIs returns the page of what needs a person.
func (s *pages) whereIs(a status.Attention, nodes []status.Node) string {
	if a.State == status.NeedsAnswer {
		return "/inbox"
	}
	for _, n := range nodes {
		if n.Path == a.Path {
			return agentURL(a.Path)
		}
	}
	return ""
}

// count counts the nodes by what they need.
func (v *summary) count(nodes []status.Node, quotas []quota.Info) {
	var input, bad, paused, working, done, starting int
	var oldest time.Time
	waiting := map[string]bool{}
	for _, q := range quotas {
		for _, path := range q.Waiting {
			waiting[path] = true
		}
	}
	for _, n := range nodes {
		if n.NeedsInput != nil && n.Kind == "agent" && (oldest.IsZero() || n.NeedsInput.At.Before(oldest)) {
			oldest = n.NeedsInput.At
		}
		state := n.Shown()
		if state == "paused" || state == "suspended" && n.Kind == "agent" {
			paused++
			continue
		}
		if n.Kind != "agent" {
			continue
		}
		v.Agents++
		switch state {
		case status.ShownNeedsInput:
			input++
		case "quarantined", status.ShownGivenUp, status.ShownCrashLoop:
			bad++
		case status.StateRunning, status.ShownDraining:
			working++
		case status.StateStarting, status.StateStopping, "restarting", status.StateWaiting:
			if !waiting[n.Path] {
				starting++
			}
		default:
			done++
		}
	}
	v.Oldest = stamp(oldest)
	v.Counts = []count{
		{"Needs input", "/inbox", "ask", input},
		{"Quarantined or given up", "/tree?q=&sort=state", "bad", bad},
		{"Paused or suspended", "/tree?sort=state", "bad", paused},
		{"Waiting for quota", "/tree?state=waiting", "busy", len(waiting)},
		{"Starting or waiting", "/tree?sort=state", "busy", starting},
		{"Working", "/tree?state=running", "good", working},
		{"Done or stopped", "/tree?state=stopped", "quiet", done},
	}
}
