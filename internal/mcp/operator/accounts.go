package operator

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/quota"
)

// maxNames bounds a list of agents in a row.
const maxNames = 20

// names returns the first names of a list, and a text about the others.
func names(all []string) []string {
	shown, more := first(all, maxNames, "the tool agents lists them")
	if more != "" {
		shown = append(shown[:maxNames:maxNames], more)
	}
	return shown
}

func listQuotas(ctx context.Context, c *api.Client, _ nothing) (answer, error) {
	all, err := quota.List.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	all, more := first(all, 0, "coppice quota ls has all")
	for i := range all {
		all[i].Waiting, all[i].Agents = names(all[i].Waiting), names(all[i].Agents)
	}
	return answer{{"note", fromAgents}, {"quotas", all}, {"more", more}}, nil
}

func listBudgets(ctx context.Context, c *api.Client, _ nothing) (answer, error) {
	all, err := budget.List.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	all, more := first(all, 0, "coppice budget ls has all")
	for i := range all {
		b := &all[i]
		b.Waiting, b.Parked, b.Tasks, b.Unknown = names(b.Waiting), names(b.Parked), names(b.Tasks), names(b.Unknown)
	}
	return answer{{"budgets", all}, {"more", more}}, nil
}

type costsInput struct {
	By    cost.By `json:"by"`
	Since string  `json:"since"`
	Limit int     `json:"limit"`
}

func sumCosts(ctx context.Context, c *api.Client, in costsInput) (answer, error) {
	r, err := cost.Show.Call(ctx, c, cost.Request{By: in.By, Since: in.Since})
	if err != nil {
		return nil, err
	}
	rows, more := first(r.Rows, in.Limit, "raise limit; total counts them, too")
	r.Rows = rows
	return answer{{"costs", r}, {"more", more}}, nil
}

// orderRow is a row of a list of orders.
type orderRow struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Enabled     bool       `json:"enabled"`
	Reason      string     `json:"reason"`
	NextAt      *time.Time `json:"next_at,omitempty"`
	Running     int        `json:"running,omitempty"`
	LastRun     string     `json:"last_run,omitempty"`
	LastStatus  string     `json:"last_status,omitempty"`
	LastFiredAt *time.Time `json:"last_fired_at,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
}

func listOrders(ctx context.Context, c *api.Client, in limitInput) (answer, error) {
	orders, err := dispatch.List.Call(ctx, c, api.None{})
	if err != nil {
		return nil, err
	}
	orders, more := first(orders, in.Limit, "raise limit")
	all := make([]orderRow, len(orders))
	for i, o := range orders {
		all[i] = orderRow{Name: o.Name, Description: o.Description, Enabled: o.Enabled, Reason: o.Reason,
			NextAt: o.NextAt, Running: o.Running}
		if r := o.Last; r != nil {
			all[i].LastRun, all[i].LastStatus = r.ID, r.Status
			all[i].LastFiredAt, all[i].LastError = &r.FiredAt, r.Error
		}
	}
	return answer{{"note", fromAgents}, {"orders", all}, {"more", more}}, nil
}
