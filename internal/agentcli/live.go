package agentcli

import "github.com/coppice-dev/coppice/internal/outcome"

// Refusal returns why the account does not serve a run that goes on: its command line may try again for minutes before
// it gives up. Of a usage limit this is certain only if it has reported when the limit ends; too many requests at the
// moment look the same otherwise. ok is false if nothing is known.
func (e End) Refusal() (r Record, ok bool) {
	run := e.run()
	run.Failed = true // so that quotas that are used up count
	v, ok := e.failure(run)
	r = Record{Verdict: v, CLI: e.cli()}
	return r, ok && r.OfAccount() && (v.Obstacle != outcome.UsageLimit || v.Reset.After(e.Now))
}
