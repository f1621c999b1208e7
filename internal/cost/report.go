package cost

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// By is what a report tells apart.
type By string

const (
	ByAgent   By = "agent"
	ByAccount By = "account"
	ByTask    By = "task"
	ByPool    By = "pool"
	ByModel   By = "model"
	ByDay     By = "day"
)

// Groups returns all that a report can tell apart.
func Groups() []By { return []By{ByAgent, ByAccount, ByTask, ByPool, ByModel, ByDay} }

// period is a range of local dates, both included. Since is empty if it has no start.
type period struct{ since, until string }

// parsePeriod parses the start and the end of a period. Each is how long ago that was, a date, or a time; a day
// counts as a whole.
func parsePeriod(since, until string, now time.Time) (p period, err error) {
	p.until = dateOf(now)
	if since != "" {
		if p.since, err = parseDate("since", since, now); err != nil {
			return p, err
		}
	}
	if until != "" {
		if p.until, err = parseDate("until", until, now); err != nil {
			return p, err
		}
	}
	if p.since > p.until {
		return p, fmt.Errorf("%w: since is %s, after until, which is %s", api.ErrInvalid, p.since, p.until)
	}
	return p, nil
}

func parseDate(name, text string, now time.Time) (string, error) {
	if at, ok := timespan.At(text, now); ok {
		return dateOf(at), nil
	}
	return "", fmt.Errorf("%w: %s is %.100q, expected how long ago, such as 24h or 7d, or a date such as 2026-11-01",
		api.ErrInvalid, name, text)
}

// sums are the parts of a report by name.
type sums map[string]part

// add adds a row of a day.
func (s sums) add(by By, date, agent string, r row) {
	name := ""
	switch by {
	case ByModel:
		for model, p := range r.Models {
			s[model] = s[model].plus(p)
		}
		return
	case ByAgent:
		name = agent
	case ByAccount:
		name = r.Account
	case ByTask:
		name = r.Task
	case ByPool:
		name = r.Pool
	case ByDay:
		name = date
	}
	s[name] = s[name].plus(r.used())
}

// summary sums up a period for a report.
type summary struct {
	by     By
	groups sums
	all    part
	first  string // its first day
}

// add adds a row of a day.
func (s *summary) add(date, agent string, r row) {
	s.groups.add(s.by, date, agent, r)
	s.all = s.all.plus(r.used())
	s.first = cmp.Or(s.first, date)
}

// maxRows bounds the rows of a report.
const maxRows = 1000

// sorted returns the names in the order of a report: days by date, all else by tokens. Those over the bound are
// summed up in one row.
func (s sums) sorted(by By) (rows []Row) {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if by == ByDay {
			return cmp.Compare(a, b)
		}
		return cmp.Or(cmp.Compare(s[b].Usage.Tokens(), s[a].Usage.Tokens()), cmp.Compare(s[b].Calls, s[a].Calls),
			cmp.Compare(a, b))
	})
	rest := part{}
	for i, name := range names {
		if i < maxRows {
			rows = append(rows, s[name].row(name))
		} else {
			rest = rest.plus(s[name])
		}
	}
	if n := len(names) - maxRows; n > 0 {
		rows = append(rows, rest.row(fmt.Sprintf("%d others", n)))
	}
	return rows
}

// row returns the row of a report. What is known of no call is left out.
func (p part) row(name string) Row {
	r := Row{
		Name: name, Calls: p.Calls, UnknownTokens: p.UnknownTokens, UnknownDollars: p.UnknownDollars,
		UnknownTurns: p.UnknownTurns, Running: p.Running, Runs: p.Runs, Seconds: p.Time.Seconds(),
	}
	if p.UnknownTurns < p.Calls || p.Calls == 0 {
		r.Turns = &p.Turns
	}
	if p.UnknownTokens < p.Calls || p.Calls == 0 {
		tokens, u := p.Usage.Tokens(), p.Usage
		r.Tokens, r.Input, r.Output = &tokens, &u.Input, &u.Output
		r.CacheRead, r.CacheWrite = &u.CacheRead, &u.CacheWrite
	}
	if p.UnknownDollars < p.Calls || p.Calls == 0 {
		dollars := p.Usage.Dollars
		r.Dollars = &dollars
	}
	return r
}

// Report sums up what the ledger has of a period.
func (l *Ledger) Report(ctx context.Context, by By, since, until string, now time.Time) (Report, error) {
	by = cmp.Or(by, ByAgent)
	if !slices.Contains(Groups(), by) {
		return Report{}, fmt.Errorf("%w: by is %.40q, expected agent, account, task, pool, model or day",
			api.ErrInvalid, string(by))
	}
	p, err := parsePeriod(since, until, now)
	if err != nil {
		return Report{}, err
	}
	var sum summary
	today := dateOf(now)
	for range maxReads {
		running := l.progress.get()
		if sum, err = l.read(ctx, by, p); err == nil && p.since <= today && today <= p.until {
			err = l.addRunning(ctx, &sum, running, now)
		}
		if err != nil {
			return Report{}, fmt.Errorf("reading the ledger: %w", err)
		}
		if l.progress.has(running) {
			break
		}
	}
	rows := sum.groups.sorted(by)
	if rows == nil {
		rows = []Row{}
	}
	return Report{By: by, Since: cmp.Or(p.since, sum.first), Until: p.until, Rows: rows, Total: sum.all.row("")}, nil
}

// maxReads bounds how often the ledger is read for a report. A call that ends while it is read the last time may be
// missing, or be in it twice.
const maxReads = 4

// read sums up what is counted of a period.
func (l *Ledger) read(ctx context.Context, by By, p period) (sum summary, err error) {
	sum = summary{by: by, groups: sums{}}
	for after := dayPrefix + "/" + p.since; ; {
		page, _, err := l.Store.Scan(ctx, dayPrefix, after, 0)
		if err != nil || len(page) == 0 {
			return sum, err
		}
		for _, r := range page {
			after = r.Key
			date, _, _ := strings.Cut(strings.TrimPrefix(r.Key, dayPrefix+"/"), "/")
			if date > p.until {
				return sum, nil
			}
			d, ok := l.day(r)
			for _, row := range d.Rows {
				if ok && row.Calls > 0 { // else it is a command that is no language model's, which a budget covers
					sum.add(date, d.Agent, row)
				}
			}
		}
	}
}

// day decodes the record of a day.
func (l *Ledger) day(r store.Record) (d day, ok bool) {
	if err := json.Unmarshal(r.Value, &d); err != nil {
		l.Logger.Warn("cannot read a record of the ledger", "key", r.Key, "error", err)
		return d, false
	}
	return d, true
}
