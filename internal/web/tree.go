package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/status"
)

// row is a node of the tree as it is shown. Rows are compared, so it has no pointers.
type row struct {
	Path, ID, Name   string
	Depth            int
	Kind, Strategy   string
	State            string
	Tone             status.Tone
	Incarnation      uint64
	Starts           string
	Since            string // when it started, in RFC 3339
	Next             string // when it is tried again, in RFC 3339
	Why              string
	Progress         string // when it has last made progress, in RFC 3339
	Cost             string
	Question         string
	dollars          float64
	attention, index int
}

// elementID returns the id of the element of a node.
func elementID(path string) string { return "n-" + url.PathEscape(path) }

// stamp returns a time for the script, which shows how long ago it is. Times that are computed from ages vary a
// little, so it is rounded.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Round(time.Second).UTC().Format(time.RFC3339)
}

// stampOf is stamp for templates, where a time may be missing.
func stampOf(at any) string {
	switch at := at.(type) {
	case time.Time:
		return stamp(at)
	case *time.Time:
		if at != nil {
			return stamp(*at)
		}
	}
	return ""
}

// rowOf returns a node as a row.
func rowOf(index int, n status.Node, now time.Time, dollars map[string]float64) row {
	r := row{
		Path: n.Path, ID: elementID(n.Path), Name: n.Path[strings.LastIndex(n.Path, "/")+1:],
		Depth: strings.Count(n.Path, "/"), Kind: n.Kind, Strategy: strings.ReplaceAll(n.Strategy, "_", " "),
		State: n.Shown(), Incarnation: n.Incarnation, Starts: n.Starts(), index: index,
	}
	if n.Pool != nil {
		r.Strategy = "pool"
	}
	r.Tone, r.attention = status.ToneOf(r.State), attentionOf(r.State)
	if n.StartedAt != nil {
		r.Since = stamp(*n.StartedAt)
	}
	if n.NextAt != nil && n.State != status.StateRunning {
		r.Next = stamp(*n.NextAt)
	}
	switch {
	case n.NeedsInput != nil && r.State == status.ShownNeedsInput:
		r.Question, r.Why = n.NeedsInput.ID, n.NeedsInput.Text
	case n.Pool != nil:
		r.Why = n.Pool.Text()
	case r.State == status.StateRunning:
		r.Why = cmp.Or(n.StatusText, n.Tasks)
	case n.Failed && n.LastExit != "":
		r.Why = n.Reason + " (" + n.LastExit + ")"
	default:
		r.Why = n.Reason
	}
	if v := n.Vitals; v != nil && v.ProgressAge > 0 && n.State == status.StateRunning {
		r.Progress = stamp(now.Add(-time.Duration(v.ProgressAge * float64(time.Second))).Truncate(5 * time.Second))
	}
	if d, ok := dollars[n.Path]; ok {
		r.dollars, r.Cost = d, dollarText(d)
	}
	return r
}

// dollarText returns an amount in dollars.
func dollarText(d float64) string {
	if d > 0 && d < 0.01 {
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", d)
}

// attentionOf orders states by how much they need a person: those that do come first.
func attentionOf(state string) int {
	order := []status.Tone{status.Ask, status.Bad, status.Busy, status.Good, status.Quiet}
	return slices.Index(order, status.ToneOf(state))
}

// renderRows returns rows as parts of a list.
func (s *pages) renderRows(rows []row) ([]part, error) {
	parts := make([]part, 0, len(rows))
	for _, r := range rows {
		shown := r
		shown.index = 0 // it moves when others come and go
		html, err := s.drawn.get("row "+r.Path, shown, func() (template.HTML, error) { return s.renderPart("row", r) })
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{id: r.ID, list: "rows", html: html})
	}
	return parts, nil
}

// renderPart renders a template.
func (s *pages) renderPart(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := s.templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("template %s: %w", name, err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // templates escape
}

// parts renders parts that are not in a list.
func (s *pages) parts(data map[string]any) (all []part, err error) {
	for name, d := range data {
		html, err := s.renderPart(name, d)
		if err != nil {
			return nil, err
		}
		all = append(all, part{id: name, html: html})
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// treeData is what the page of the tree shows next to its rows.
type treeData struct {
	Query, State, Sort string
	Descending         bool
	States             []string
	Columns            []sortColumn
	Values             url.Values
}

// sortColumn is a header that sorts.
type sortColumn struct {
	Name, Label, URL, Aria string
}

// sortOrder is an order of rows.
type sortOrder struct {
	name, label string
	compare     func(a, b row) int
}

// sortOrders returns the orders in which rows may be.
func sortOrders() []sortOrder {
	return []sortOrder{
		{"", "Name", func(a, b row) int { return cmp.Compare(a.index, b.index) }},
		{"state", "State", func(a, b row) int { return cmp.Compare(a.attention, b.attention) }},
		{"restarts", "Starts", func(a, b row) int { return cmp.Compare(b.Incarnation, a.Incarnation) }},
		{"uptime", "Uptime", func(a, b row) int { return cmp.Compare(cmp.Or(a.Since, "9"), cmp.Or(b.Since, "9")) }},
		{"progress", "Progress", func(a, b row) int {
			return cmp.Compare(cmp.Or(a.Progress, "9"), cmp.Or(b.Progress, "9"))
		}},
		{"cost", "Cost today", func(a, b row) int { return cmp.Compare(b.dollars, a.dollars) }},
	}
}

// treePage shows the nodes of the tree.
func (s *pages) treePage(ctx context.Context, q query) (*page, error) {
	nodes, err := s.hub.allNodes(ctx, q.at)
	if err != nil {
		return nil, err
	}
	dollars, err := s.dollarsToday(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	d := treeData{Query: q.get("q"), State: q.get("state"), Sort: q.get("sort"), Descending: q.get("desc") != ""}
	states := map[string]bool{}
	rows := make([]row, 0, len(nodes))
	for i, n := range nodes {
		r := rowOf(i, n, now, dollars)
		states[r.State] = true
		if hasWords(r.Path+" "+r.State+" "+r.Why, d.Query) && (d.State == "" || d.State == r.State) {
			rows = append(rows, r)
		}
	}
	total := len(nodes)
	for state := range states {
		d.States = append(d.States, state)
	}
	slices.Sort(d.States)
	d.sort(rows)
	parts, err := s.renderRows(rows)
	if err != nil {
		return nil, err
	}
	more, err := s.parts(map[string]any{"shown": map[string]int{"Rows": len(rows), "Total": total}})
	if err != nil {
		return nil, err
	}
	return &page{title: "Tree", nav: "tree", template: "tree", data: d, parts: append(more, parts...)}, nil
}

// sort sorts rows, and makes the headers that sort them otherwise.
func (d *treeData) sort(rows []row) {
	for _, o := range sortOrders() {
		c := sortColumn{Name: o.name, Label: o.label}
		v := parameters("q", d.Query, "state", d.State, "sort", o.name)
		if o.name == d.Sort {
			slices.SortStableFunc(rows, o.compare)
			if c.Aria = "ascending"; d.Descending {
				slices.Reverse(rows)
				c.Aria = "descending"
			} else {
				v.Set("desc", "1")
			}
		}
		c.URL = "/tree?" + v.Encode()
		d.Columns = append(d.Columns, c)
	}
}

// dollarsToday returns what calls of agents have cost today, by path.
func (s *pages) dollarsToday(ctx context.Context) (map[string]float64, error) {
	report, err := s.costToday(ctx, cost.ByAgent)
	if err != nil {
		return nil, err
	}
	dollars := make(map[string]float64)
	for _, r := range report.Rows {
		if r.Dollars != nil {
			dollars[r.Name] = *r.Dollars
		}
	}
	return dollars, nil
}

// costToday returns what calls have cost today.
func (s *pages) costToday(ctx context.Context, by cost.By) (cost.Report, error) {
	return cost.Show.Call(ctx, s.Client, cost.Request{By: by, Since: time.Now().Format(time.DateOnly)})
}
