package agentcli

import (
	"cmp"
	"maps"
	"time"
)

// Record is what is kept of a run of a command line.
type Record struct {
	CLI     CLI     `json:"cli"`
	Version string  `json:"version,omitempty"`
	Session string  `json:"session,omitempty"`
	Model   string  `json:"model,omitempty"`
	Account Account `json:"account,omitempty"`

	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`

	Verdict

	// Tokens are those that count; nil if they are not known. Usage has them by model.
	Tokens *int64 `json:"tokens"`
	Usage  Models `json:"usage,omitempty"`
	// UsageFrom is where they were reported.
	UsageFrom Source `json:"usage_from,omitempty"`
	// Cumulative says that they include earlier runs of the session.
	Cumulative bool `json:"cumulative,omitempty"`

	// Turns are the answers of the model; nil if they are not known.
	Turns *int64 `json:"turns,omitempty"`

	Calls     int            `json:"tool_calls"`
	Succeeded int            `json:"tool_calls_succeeded"`
	Denied    int            `json:"tool_calls_denied"`
	Retries   int            `json:"retries"`
	Unknown   map[string]int `json:"unknown,omitempty"` // objects by kind
}

// Record classifies the end of a run, and returns what is kept of it.
func (e End) Record() Record {
	r := e.Counts()
	r.Verdict = Classify(e)
	return r
}

// Counts returns what is kept of a run, without a verdict: it may not have ended.
func (e End) Counts() Record {
	out := e.Output
	r := Record{
		CLI: e.cli(), Calls: out.Calls, Succeeded: out.Succeeded, Denied: out.Denied,
		Retries: max(out.Retried, e.Stderr.Retried), Unknown: out.Unknown,
		Version: cmp.Or(out.Version, e.Session.Version), Session: cmp.Or(out.Session, e.Session.Session),
		Model: cmp.Or(out.Model, e.Session.Model), Account: cmp.Or(out.Account, e.Session.Account),
	}
	if used, from := e.Usage(); used.Known {
		r.SetUsage(used.Models.named(r.Model), from)
		r.Cumulative = used.Cumulative
		if turns := max(out.Turns, e.Session.Turns); turns > 0 || used.Tokens() == 0 {
			r.Turns = &turns
		}
	}
	r.AddExport(e.Exported)
	return r
}

// AddExport adds what a run has exported over OTLP, where that says more: it may be known before anything else is, it
// is known to the end of a run that is killed, and it has dollars. It says nothing of a total of a session.
func (r *Record) AddExport(e Report) {
	if !e.Known || r.Cumulative {
		return
	}
	if r.Turns == nil || e.Turns > *r.Turns {
		r.Turns = &e.Turns
	}
	if r.Tokens == nil || e.Tokens() > *r.Tokens {
		r.SetUsage(e.Models, FromExport)
		return
	}
	r.Usage = maps.Clone(r.Usage)
	for model, exported := range e.Models {
		if u, ok := r.Usage[model]; ok {
			u.Dollars = max(u.Dollars, exported.Dollars)
			r.Usage[model] = u
		}
	}
}

// SetUsage sets what was used, by the run alone.
func (r *Record) SetUsage(used Models, from Source) {
	n := used.Total().Tokens()
	r.Tokens, r.Usage, r.UsageFrom, r.Cumulative = &n, used, from, false
}

// DropUsage says that what was used is not known.
func (r *Record) DropUsage() { r.Tokens, r.Usage, r.UsageFrom, r.Cumulative = nil, nil, "", false }

// Usage returns the report with the best usage, and where it is from. The file of a session is exact at any time, and
// has what subagents use. A total in the output is better only if it says more: a file may be cut off or not there.
// One that includes earlier runs says nothing of this run alone.
func (e End) Usage() (Report, Source) {
	out, session := e.Output, e.Session
	switch {
	case !session.Known:
		return out, FromStream
	case !out.Known, out.Cumulative, session.Tokens() > out.Tokens(), session.Tokens() == out.Tokens() && !out.Ended:
		return session, FromSession
	}
	return out, FromStream
}
