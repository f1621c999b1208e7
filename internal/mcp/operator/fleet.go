package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/report"
	"github.com/coppice-dev/coppice/internal/status"
)

func getStatus(ctx context.Context, c *api.Client, _ nothing) (answer, error) {
	st, err := status.Get.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(st.Summary, func(_ string, agents int) bool { return agents == 0 })
	var more [3]string
	st.Attention, more[0] = first(st.Attention, 0, "the tool agents lists them by state")
	st.Pools, more[1] = first(st.Pools, 0, "the tool agents lists pools")
	st.Gates, more[2] = first(st.Gates, 0, "the tool tasks lists blocked ones")
	return answer{
		{"note", fromAgents}, {"status", st}, {"more_attention", more[0]}, {"more_pools", more[1]},
		{"more_gates", more[2]},
	}, nil
}

type agentsInput struct {
	Path  string `json:"path"`
	State string `json:"state"`
	Limit int    `json:"limit"`
}

// node is a row of a list of nodes.
type node struct {
	Path        string     `json:"path"`
	Kind        string     `json:"kind"`
	State       string     `json:"state"`
	Reason      string     `json:"reason,omitempty"`
	Incarnation uint64     `json:"incarnation,omitempty"`
	Restarts    int        `json:"restarts,omitempty"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	NextAt      *time.Time `json:"next_at,omitempty"`
	LastExit    string     `json:"last_exit,omitempty"`
	Says        string     `json:"says,omitempty"`
	Question    string     `json:"question,omitempty"`
	Tasks       string     `json:"tasks,omitempty"`
}

func nodeOf(n status.Node) node {
	row := node{
		Path: n.Path, Kind: n.Kind, State: n.Shown(), Reason: n.Reason, Incarnation: n.Incarnation,
		Restarts: n.Restarts, NextAt: n.NextAt, LastExit: n.LastExit, Says: n.StatusText, Tasks: n.Tasks,
	}
	if n.PID != 0 {
		row.StartedAt = n.StartedAt
	}
	if n.NeedsInput != nil {
		row.Question = n.NeedsInput.ID + ": " + n.NeedsInput.Text
	}
	return row
}

func listAgents(ctx context.Context, c *api.Client, in agentsInput) (answer, error) {
	nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: in.Path})
	if err != nil {
		return nil, err
	}
	states := make(map[string]int) // of agents
	all := []node{}
	wanted := status.StateWords(strings.ToLower(in.State))
	for _, n := range nodes {
		if n.Kind == "agent" {
			states[n.Shown()]++
		}
		if wanted == "" || wanted == n.Shown() || wanted == status.StateWords(n.State) {
			all = append(all, nodeOf(n))
		}
	}
	all, more := first(all, in.Limit, "name a path or a state, or raise limit")
	if len(all) == 0 {
		more = fmt.Sprintf("nothing is %q; the states of agents here: %s", wanted,
			strings.Join(slices.Sorted(maps.Keys(states)), ", "))
	}
	return answer{{"note", fromAgents}, {"states", states}, {"nodes", all}, {"more", more}}, nil
}

type pathInput struct {
	Path string `json:"path"`
}

// maxClaims bounds the claimed outcomes that explain shows.
const maxClaims = 5

func explain(ctx context.Context, c *api.Client, in pathInput) (answer, error) {
	x, err := status.Explain.Call(ctx, c, status.ExplainRequest{Path: in.Path})
	if err != nil {
		return nil, err
	}
	slices.Reverse(x.Claims)
	claims, moreClaims := first(x.Claims, maxClaims, "coppice explain --json has all")
	events := make([]eventRow, len(x.History))
	for i, e := range x.History {
		events[i] = rowOf(e)
	}
	return answer{
		{"note", fromAgents}, {"node", x.Node}, {"why", x.Rule}, {"facts", append([]string{}, x.Evidence...)},
		{"next", x.Next}, {"do", x.Hint}, {"last_events", events}, {"last_output", x.Tail}, {"last_claims", claims},
		{"more_claims", moreClaims},
	}, nil
}

// eventRow is an event in an answer.
type eventRow struct {
	Number      uint64     `json:"number"`
	At          time.Time  `json:"at"`
	Type        event.Type `json:"type"`
	Path        string     `json:"path,omitempty"`
	Incarnation uint64     `json:"incarnation,omitempty"`
	Text        string     `json:"text,omitempty"`
	By          string     `json:"by,omitempty"`
}

func rowOf(e event.Event) eventRow {
	return eventRow{e.Seq, e.Time, e.Type, e.Path, e.Incarnation, e.Text(), e.Actor}
}

type sinceInput struct {
	Since string `json:"since"`
}

func makeReport(ctx context.Context, c *api.Client, in sinceInput) (answer, error) {
	if in.Since == "" {
		in.Since = "24h"
	}
	from, err := since(in.Since)
	if err != nil {
		return nil, err
	}
	gathered, err := report.Gather(ctx, c, from, time.Now())
	if err != nil {
		return nil, err
	}
	return answer{{"note", fromAgents}, {"report", report.New(gathered).Markdown()}}, nil
}
