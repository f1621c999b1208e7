package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/status"
)

// costRow is a row of the table of what calls have used.
type costRow struct {
	Name, Tokens, Dollars  string
	Calls, Running, Unread int64
	Share                  int // of the most dollars, in percent
}

// quotaShown is an account of a language model.
type quotaShown struct {
	quota.Info
	Tone     status.Tone
	Operator bool
}

// budgetShown is a budget.
type budgetShown struct {
	budget.Info
	Operator bool
}

// costData is what the page of costs shows next to its parts.
type costData struct {
	By, Since string
	Groups    []cost.By
}

// costPage shows quotas, budgets, and what calls of language models have used.
func (s *pages) costPage(ctx context.Context, q query) (*page, error) {
	operates := q.role == operator
	quotas, err := quota.List.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	accounts := make([]quotaShown, 0, len(quotas))
	for _, info := range quotas {
		tone := map[quota.State]status.Tone{
			quota.Open: status.Good, quota.Parked: status.Busy, quota.Probing: status.Busy, quota.Stopped: status.Bad,
		}[info.State]
		accounts = append(accounts, quotaShown{info, tone, operates})
	}
	all, err := budget.List.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	budgets := make([]budgetShown, 0, len(all))
	for _, b := range all {
		budgets = append(budgets, budgetShown{b, operates})
	}
	d := costData{
		By: cmp.Or(q.get("by"), string(cost.ByAgent)), Since: cmp.Or(q.get("since"), "7d"), Groups: cost.Groups(),
	}
	if !slices.Contains(d.Groups, cost.By(d.By)) {
		return nil, fmt.Errorf("%w: by is %.40q, expected one of %v", api.ErrInvalid, d.By, d.Groups)
	}
	report, err := cost.Show.Call(ctx, s.Client, cost.Request{By: cost.By(d.By), Since: d.Since})
	if err != nil {
		return nil, err
	}
	p := &page{title: "Quota and cost", nav: "cost", template: "cost", data: d}
	p.parts, err = s.parts(map[string]any{"quotas": accounts, "budgets": budgets, "costs": costRows(report)})
	return p, err
}

// costRows returns the rows of a report, and the total last.
func costRows(r cost.Report) []costRow {
	most := 0.0
	for _, row := range r.Rows {
		if row.Dollars != nil {
			most = max(most, *row.Dollars)
		}
	}
	of := func(name string, row cost.Row) costRow {
		c := costRow{
			Name: cmp.Or(name, "not known"), Calls: row.Calls, Running: row.Running, Unread: row.UnknownDollars,
			Tokens:  cost.TokensText(row.Tokens, row.UnknownTokens, row.Calls),
			Dollars: cost.DollarsText(row.Dollars, row.UnknownDollars, row.Calls),
		}
		if row.Dollars != nil && most > 0 {
			c.Share = int(*row.Dollars / most * 100)
		}
		return c
	}
	rows := make([]costRow, 0, len(r.Rows)+1)
	for _, row := range r.Rows {
		rows = append(rows, of(row.Name, row))
	}
	total := of("All", r.Total)
	total.Share = 0
	return append(rows, total)
}

// usedText returns a measure of a budget as text.
func usedText(m budget.Measure) string {
	text := fmt.Sprintf("%s: %.4g of %.4g", m.Limit, m.Used, m.Max)
	if m.Unknown > 0 {
		text += fmt.Sprintf(", and %d calls of which it is not known", m.Unknown)
	}
	return strings.ReplaceAll(text, "time:", "seconds:")
}
