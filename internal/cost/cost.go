// Package cost keeps the ledger: which calls of language models have used how much, by agent, account, task, pool,
// model and day.
//
// What is not known is unknown, never 0: the ledger counts the calls whose tokens are not known, and those whose
// dollars are not known. Dollars are what the command lines estimate themselves; Coppice knows no prices.
//
// A call is counted exactly once. Each run of an agent has an identity, and its calls have numbers. The number of the
// last call that was counted is written in the same step as what it has used, so a daemon that is killed at any moment
// counts nothing twice, and the next one goes on where it has stopped.
package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Entry is a call of a language model, or a run of its command line.
type Entry struct {
	At      time.Time // its end
	Agent   string    // path
	Pool    string    // that the agent is an instance of, as the file names it; may be empty
	Account string    // the name of its quota
	Task    string    // ID; empty if it was for none, for several, or that is not known
	Running bool      // it has not ended; At is now
	agentcli.Record
}

// Counts counts calls, and the runs that they are of.
type Counts struct {
	Calls          int64 `json:"calls"`
	UnknownTokens  int64 `json:"unknown_tokens,omitempty"`  // calls whose tokens are not known
	UnknownDollars int64 `json:"unknown_dollars,omitempty"` // calls whose dollars are not known
	Turns          int64 `json:"turns,omitempty"`           // answers of models
	UnknownTurns   int64 `json:"unknown_turns,omitempty"`   // calls whose turns are not known
	Running        int64 `json:"running,omitempty"`         // calls that have not ended; never in the store

	Runs int64         `json:"runs,omitempty"`    // that have ended
	Time time.Duration `json:"time_ns,omitempty"` // that these have taken
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		agentcli.Add(c.Calls, d.Calls), agentcli.Add(c.UnknownTokens, d.UnknownTokens),
		agentcli.Add(c.UnknownDollars, d.UnknownDollars), agentcli.Add(c.Turns, d.Turns),
		agentcli.Add(c.UnknownTurns, d.UnknownTurns), agentcli.Add(c.Running, d.Running), agentcli.Add(c.Runs, d.Runs),
		time.Duration(agentcli.Add(int64(c.Time), int64(d.Time))),
	}
}

// Sum adds up calls and runs of all models.
type Sum struct {
	Counts
	Tokens  int64   `json:"tokens"`
	Dollars float64 `json:"dollars"`
}

// Plus returns the sum of two sums.
func (s Sum) Plus(t Sum) Sum {
	return Sum{s.Counts.plus(t.Counts), agentcli.Add(s.Tokens, t.Tokens), max(0, s.Dollars+t.Dollars)}
}

// part is what calls have used of a model.
type part struct {
	Counts
	Usage agentcli.Usage `json:"usage"`
}

func (p part) plus(q part) part {
	return part{p.Counts.plus(q.Counts), p.Usage.Plus(q.Usage)}
}

// amount is what calls have used. A call that has used several models is counted once, and once for each model.
type amount struct {
	Counts
	Models map[string]part `json:"models"` // the name is empty if it is not known
}

func (a amount) plus(b amount) amount {
	sum := amount{a.Counts.plus(b.Counts), maps.Clone(a.Models)}
	if sum.Models == nil {
		sum.Models = map[string]part{}
	}
	for model, p := range b.Models {
		sum.Models[model] = sum.Models[model].plus(p)
	}
	return sum
}

// used returns the sum over all models, with the calls counted once.
func (a amount) used() (sum part) {
	for _, p := range a.Models {
		sum = sum.plus(p)
	}
	sum.Counts = a.Counts
	return sum
}

// sum returns the sum over all models.
func (a amount) sum() Sum {
	u := a.used().Usage
	return Sum{a.Counts, u.Tokens(), u.Dollars}
}

// Used describes what a call or a run adds to the ledger.
type Used struct {
	Agent   string // path
	CLI     agentcli.CLI
	Version string // of the command line
	Counts
	Models  agentcli.Models
	Unknown int // objects in its output whose kind is not known
}

// used returns what an entry has added to the ledger.
func (e Entry) used(a amount) Used {
	u := Used{Agent: e.Agent, CLI: e.CLI, Version: e.Version, Counts: a.Counts, Models: agentcli.Models{}}
	for model, p := range a.Models {
		u.Models[model] = p.Usage
	}
	for _, n := range e.Record.Unknown {
		u.Unknown += max(0, n)
	}
	return u
}

// event returns the event of calls that were counted.
func (e Entry) event(a amount, incarnation uint64, attempt int) event.Event {
	counted := event.Counted{CLI: string(e.CLI), Model: e.Model, Session: plaintext.OneLine(e.Session, maxName),
		Task: e.Task, Calls: a.Calls}
	if e.Task != "" {
		counted.Attempt = attempt
	}
	used := "an unknown number of tokens"
	if a.UnknownTokens == 0 {
		u := a.used().Usage
		counted.Usage = &event.Usage{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output,
			Dollars: u.Dollars}
		used = plaintext.Thousands(u.Tokens()) + " tokens"
	}
	return event.Event{
		Type: event.CostCounted, Path: e.Agent, Incarnation: incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s has called %s: %s", e.Agent, cmp.Or(e.Model, string(e.CLI), "a model"), used),
	}.With(counted)
}

// dropped returns the amount of calls of which nothing is known.
func dropped(calls int64) amount {
	c := Counts{Calls: calls, UnknownTokens: calls, UnknownDollars: calls, UnknownTurns: calls}
	return amount{c, map[string]part{"": {Counts: c}}}
}

// amount returns what a call counts if last is the known total of its session, and the total from then on.
func (e Entry) amount(last agentcli.Models) (a amount, total agentcli.Models) {
	one := Counts{Calls: 1, UnknownTurns: 1}
	if e.Turns != nil {
		one.Turns, one.UnknownTurns = max(0, *e.Turns), 0
	}
	if e.Running {
		one.Running = 1
	}
	used, total := e.Count(last)
	if e.Tokens == nil {
		one.UnknownTokens, one.UnknownDollars = 1, 1
		return amount{one, map[string]part{e.Model: {Counts: one}}}, total
	}
	a = amount{one, map[string]part{}}
	a.UnknownDollars = unpriced(e.Usage.Total())
	for model, u := range used {
		c := one
		if len(used) > 1 { // which of them has answered is not known
			c.Turns, c.UnknownTurns = 0, 1
		}
		c.UnknownDollars = unpriced(e.Usage[model])
		a.Models[model] = part{Counts: c, Usage: u}
	}
	if len(used) == 0 {
		a.Models[e.Model] = part{Counts: a.Counts}
	}
	return a, total
}

// unpriced returns 1 if a command line has reported tokens and no dollars for them.
func unpriced(u agentcli.Usage) int64 {
	if u.Tokens() > 0 && u.Dollars == 0 {
		return 1
	}
	return 0
}

// row is what an agent has used on a day with an account, for a task.
type row struct {
	Account string `json:"account"`
	Pool    string `json:"pool,omitempty"`
	Task    string `json:"task,omitempty"`
	amount
}

// day is what an agent has used on a day.
type day struct {
	Agent string `json:"agent"`
	Rows  []row  `json:"rows"`
}

// Other is the name of the task and the model of what is over the bound of a day.
const Other = "other"

// maxDay bounds the size of a day of an agent.
const maxDay = 256 << 10

// size returns about how many bytes the record of a day has. Escapes may make it three times as much, which a store
// still takes.
func (d day) size() (n int) {
	for _, r := range d.Rows {
		n += 100 + 2*(len(r.Account)+len(r.Pool)+len(r.Task))
		for model := range r.Models {
			n += 200 + 2*len(model)
		}
	}
	return n
}

// add returns the day with what a call has used. Where the day has no room for another row or model, that is added
// to the row of others.
func (d day) add(e Entry, a amount) day {
	tries := []struct {
		account, pool, task string
		fold                bool
	}{{e.Account, e.Pool, e.Task, false}, {e.Account, e.Pool, Other, true}, {Other, "", Other, true}}
	for i, try := range tries {
		more := a
		if try.fold {
			more = amount{a.Counts, map[string]part{Other: a.used()}}
		}
		next, grows := d.with(row{try.account, try.pool, try.task, more})
		if !grows || i == len(tries)-1 || next.size() <= maxDay {
			return next
		}
	}
	return d
}

// with returns the day with the amount of a row added, and whether it has another row or another model then.
func (d day) with(r row) (_ day, grows bool) {
	d.Rows = slices.Clone(d.Rows)
	for i, old := range d.Rows {
		if old.Account != r.Account || old.Pool != r.Pool || old.Task != r.Task {
			continue
		}
		sum := old.plus(r.amount)
		grows = len(sum.Models) > len(old.Models)
		d.Rows[i].amount = sum
		return d, grows
	}
	d.Rows = append(d.Rows, r)
	return d, true
}

// maxName bounds the names of models, sessions and tasks, in bytes.
const maxName = 200

// maxDollars bounds what a call may report, so that a sum is always a number.
const maxDollars = 1e9

// clean returns a record with safe names and bounded dollars, since a command line may report anything.
func clean(r agentcli.Record) agentcli.Record {
	name := func(model string) string { return plaintext.OneLine(model, maxName) }
	r.Model = name(r.Model)
	if r.Tokens != nil && len(r.Usage) == 0 && *r.Tokens > 0 { // their kind is not known
		r.Usage = agentcli.Models{r.Model: {Input: *r.Tokens}}
	}
	if r.Usage != nil {
		usage := agentcli.Models{}
		for model, u := range r.Usage {
			u.Dollars = min(u.Dollars, maxDollars)
			usage[name(model)] = usage[name(model)].Plus(u)
		}
		r.Usage = usage
	}
	return r
}

// mark says which calls of an agent are counted.
type mark struct {
	Agent   string    `json:"agent"`
	Run     string    `json:"run"`     // the last run
	Counted int64     `json:"counted"` // its calls that are counted
	At      time.Time `json:"at"`
	Chain   time.Time `json:"chain,omitzero"` // start of the chain of runs of the last run
	Spent   int64     `json:"spent"`          // tokens that the chain has used, as far as they are known
	// Sessions are the sessions that the agent has used last, the latest first.
	Sessions []session `json:"sessions,omitempty"`
}

// session names a session of a command line.
type session struct {
	CLI agentcli.CLI `json:"cli"`
	ID  string       `json:"id"`
}

// maxSessions is how many sessions of an agent are known.
const maxSessions = 8

// counted returns how many calls of a run are counted.
func (m mark) counted(run string) int64 {
	if m.Run != run {
		return 0
	}
	return m.Counted
}

// next returns the mark after the calls of a run up to a number, which have used an amount, in a session unless its
// ID is empty.
func (m mark) next(r Run, number int64, a amount, s session, now time.Time) mark {
	if !m.Chain.Equal(r.Chain) {
		m.Spent = 0
	}
	m.Agent, m.Run, m.Counted, m.At, m.Chain = r.Agent, r.ID, number, now, r.Chain
	m.Spent = agentcli.Add(m.Spent, a.used().Usage.Tokens())
	if s.ID != "" && len(s.ID) <= maxName {
		others := slices.DeleteFunc(slices.Clone(m.Sessions), func(old session) bool { return old == s })
		m.Sessions = append([]session{s}, others[:min(len(others), maxSessions-1)]...)
	}
	return m
}

// Run is a run of an agent, and its calls.
type Run struct {
	Agent string // path
	// ID distinguishes the run from all others of the agent.
	ID string
	// Incarnation is that of the agent; 0 if it is not known. Task is what the run works at; if it is empty, that
	// is the task of the incarnation.
	Incarnation uint64
	Task        string
	// Attempt is the number of the only attempt at the task that the run has made; 0 if that is not known.
	Attempt int
	// Chain is the start of the chain of runs that it belongs to; zero if there are no chains.
	Chain time.Time
	// Calls are its calls in their order, the last ones: so many before them are not known.
	Calls   []agentcli.Record
	Dropped int
	// Began and Ended are those of the run as a whole, which counts once it has ended. Each is zero if it is not known,
	// Ended also before the end.
	Began, Ended time.Time
}

// RunOf returns the run of an agent, given what is known of it. incarnation is 0 if it is not known. ended says that
// the run has ended: now, or with its last call if the incarnation is not known. Only then, a call in progress is one
// of its calls. Task and Chain are left empty.
func RunOf(agent string, incarnation uint64, all callfile.Records, ended bool) Run {
	r := Run{
		Agent: agent, ID: cmp.Or(all.Run, "fired at "+all.Fired.Format(time.RFC3339Nano)), Incarnation: incarnation,
		Calls: all.Calls, Dropped: all.Dropped,
	}
	n := len(all.Calls)
	if ended && !all.Began.IsZero() {
		r.Began, r.Ended = all.Began, time.Now()
		if incarnation == 0 && n > 0 { // it has ended some time ago
			r.Ended = all.Calls[n-1].Ended
		}
	}
	if all.Running != nil && !ended && n > 0 {
		r.Calls = r.Calls[:n-1]
	}
	return r
}

// calls returns the number of calls of the run.
func (r Run) calls() int64 { return int64(max(0, r.Dropped)) + int64(len(r.Calls)) }

// items returns how much there is to count: the calls, and then the run itself.
func (r Run) items() int64 {
	if r.Ended.IsZero() {
		return r.calls()
	}
	return r.calls() + 1
}

// itself returns what the run itself counts, next to its calls.
func (r Run) itself() amount {
	c := Counts{Runs: 1}
	if !r.Began.IsZero() {
		c.Time = max(0, r.Ended.Sub(r.Began))
	}
	return amount{c, nil}
}

// entry returns the entry of a call.
func (r Run) entry(call agentcli.Record, now time.Time) Entry {
	at := cmp.Or(call.Ended, now)
	if at.After(now) {
		at = now
	}
	return Entry{At: at, Agent: r.Agent, Task: plaintext.OneLine(r.Task, maxName), Record: clean(call)}
}
