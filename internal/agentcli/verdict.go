package agentcli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// End is what is known of the end of a run.
type End struct {
	CLI CLI // Plain if empty
	// Vendor is the command line behind an agent that speaks ACP; Plain or empty if it is not known.
	Vendor CLI
	// Exit is how its process has ended, such as "exit code 1"; empty for an exit code of 0. Code is the exit
	// code, 0 if a signal has ended it.
	Exit string
	Code int
	// Stopped is why it was stopped; NotStopped if it has ended by itself.
	Stopped Stop
	// Output, Stderr and Session are what it has written to standard output, to standard error and into
	// the file of its session.
	Output, Stderr, Session Report
	// Exported has the use that it has exported over OTLP.
	Exported Report
	// Now and Local are needed for times of day in messages.
	Now   time.Time
	Local *time.Location
}

// Stop is the reason why a run was stopped from outside.
type Stop string

const (
	NotStopped  Stop = ""
	ByOperator  Stop = "operator"  // a person, a shutdown, a change of configuration
	OverBudget  Stop = "budget"    // it has used what it may
	Silent      Stop = "silence"   // the model has said nothing for too long
	TookTooLong Stop = "timeout"   // it has run for too long
	AfterItsEnd Stop = "after end" // its result had come, and the process stayed
)

// Verdict says how a run has ended, and what follows.
type Verdict struct {
	Kind     outcome.Kind         `json:"outcome"`
	Obstacle outcome.ObstacleKind `json:"obstacle,omitempty"` // empty if the work is completed
	Reason   string               `json:"reason,omitempty"`   // for people, in a line
	Rule     string               `json:"rule"`               // what decided, and on what evidence
	// Reset is when a limit ends; zero if that is not known. ResetFrom is where it was reported.
	Reset     time.Time `json:"reset,omitzero"`
	ResetFrom Source    `json:"reset_from,omitempty"`
	Next      Next      `json:"next,omitempty"`
	// Crash says that the run counts as a failure of the agent.
	Crash bool `json:"counts_as_failure"`
}

// Text returns the obstacle and the reason, in a line.
func (v Verdict) Text() string {
	if v.Obstacle == outcome.Crash {
		return v.Reason
	}
	return fmt.Sprintf("%s: %s", strings.ReplaceAll(string(v.Obstacle), "_", " "), v.Reason)
}

// OfAccount reports whether the reason is the account, so that no other run of it would end better.
func (v Verdict) OfAccount() bool {
	return v.Obstacle == outcome.UsageLimit || v.Obstacle == outcome.Authentication || v.Obstacle == outcome.Billing
}

// Next says how to go on after a run.
type Next string

const (
	Resume    Next = "resume" // the session can continue
	Fresh     Next = "fresh"  // a new session, with a summary of the work so far
	NoFurther Next = "stop"   // not without a person
)

// consequence says what follows from an obstacle.
type consequence struct {
	kind  outcome.Kind
	next  Next
	crash bool
}

func consequenceOf(o outcome.ObstacleKind) consequence {
	switch o {
	case outcome.UsageLimit:
		return consequence{outcome.Deferred, Resume, false}
	case outcome.RateLimit, outcome.Overloaded, outcome.Network:
		return consequence{outcome.Retryable, Resume, false}
	case outcome.Authentication, outcome.PermissionDenied:
		return consequence{outcome.Blocked, Resume, false}
	case outcome.Billing:
		return consequence{outcome.Escalated, Resume, false}
	case outcome.Refused, outcome.Budget:
		return consequence{outcome.Escalated, NoFurther, false}
	case outcome.Configuration:
		return consequence{outcome.Escalated, NoFurther, true}
	case outcome.ContextFull, outcome.SessionLost, outcome.ModelLimitation, outcome.Loop:
		return consequence{outcome.Retryable, Fresh, false}
	}
	return consequence{outcome.Retryable, Resume, true}
}

// Classify says how a run has ended. The first of these decides: why it was stopped, what it has reported
// of a failure, and its exit code.
func Classify(e End) Verdict {
	switch e.Stopped {
	case ByOperator:
		return Verdict{Kind: outcome.Deferred, Obstacle: outcome.OtherObstacle, Reason: "stopped", Next: Resume,
			Rule: "it was stopped"}
	case OverBudget:
		return verdict(outcome.Budget, "the budget is used up", "it was stopped at its budget")
	case Silent:
		return verdict(outcome.Timeout, "the model was silent for too long", "it was stopped after its silence")
	case TookTooLong:
		return verdict(outcome.Timeout, "it ran for too long", "it was stopped at its timeout")
	}
	run := e.run()
	unfinished := !e.Output.Ended && e.Output.Seen && e.CLI != Plain && e.CLI != ""
	ended := e.Stopped == AfterItsEnd || e.Exit == ""
	if run.Failed || !ended || unfinished {
		if v, ok := e.failure(run); ok {
			return v
		}
	}
	switch {
	case run.Failed:
		reason := cmp.Or(line(run.Text), e.text(run), "it reports a failure")
		return verdict(outcome.Crash, reason, "its result is a failure")
	case !ended:
		return verdict(outcome.Crash, e.Exit, "its process ended with: "+e.Exit)
	case unfinished:
		return verdict(outcome.Crash, "it ended with 0 and without a result", "no result in its output")
	case run.Denied > 0 && run.Succeeded == 0:
		return verdict(outcome.PermissionDenied, "every tool that it called was denied",
			fmt.Sprintf("%d of %d calls of tools were denied, and none succeeded", run.Denied, run.Calls))
	}
	return Verdict{Kind: outcome.Completed, Rule: "its result is no failure, and its exit code is 0"}
}

// text returns what the first failure with a text says; empty if there is none.
func (e End) text(run Report) string {
	for _, f := range e.failures(run) {
		if text := line(f.Text); text != "" {
			return text
		}
	}
	return ""
}

func verdict(o outcome.ObstacleKind, reason, rule string) Verdict {
	c := consequenceOf(o)
	return Verdict{Kind: c.kind, Obstacle: o, Reason: reason, Rule: rule, Next: c.next, Crash: c.crash}
}

// run joins the reports of all sources. What is counted comes from the output.
func (e End) run() Report {
	run := e.Output
	run.Failed = run.Failed || e.Session.Failed
	for _, r := range []Report{e.Session, e.Stderr} {
		run.Version = cmp.Or(run.Version, r.Version)
		run.Retried = max(run.Retried, r.Retried)
		run.Account = cmp.Or(run.Account, r.Account)
	}
	return run
}

// failures returns all that was reported, what is final first.
func (e End) failures(run Report) (all []Failure) {
	for _, r := range []Report{e.Output, e.Session, e.Stderr} {
		all = append(all, r.Failures...)
	}
	if run.Failed {
		all = append(all, rejections(e.Output, FromStream)...)
		all = append(all, rejections(e.Session, FromSession)...)
	}
	for _, r := range []Report{e.Output, e.Session, e.Stderr} {
		for _, f := range slices.Backward(r.Retries) {
			all = append(all, f)
		}
	}
	if a := adapterOf(e.cli()); a.exit != nil && e.Code != 0 {
		all = append(all, a.exit(e.Code))
	}
	return all
}

// rejections returns the quotas that are used up as failures, the one that lasts longest first.
func rejections(r Report, from Source) (all []Failure) {
	for _, w := range r.Windows {
		if w.Rejected {
			all = append(all, Failure{Code: windowRejected, Reset: w.Resets, Source: from})
		}
	}
	slices.SortFunc(all, func(a, b Failure) int { return b.Reset.Compare(a.Reset) })
	return all
}

// cli returns the command line, as it was named or recognised.
func (e End) cli() CLI {
	for _, cli := range []CLI{e.CLI, e.Output.CLI, e.Session.CLI, e.Stderr.CLI} {
		if cli != "" && cli != Plain {
			return cli
		}
	}
	return Plain
}

// failure finds the first rule that knows one of the failures.
func (e End) failure(run Report) (Verdict, bool) {
	all := e.failures(run)
	for _, r := range rules(e.cli(), e.Vendor) {
		for _, f := range all {
			if !r.matches(f, run) {
				continue
			}
			v := verdict(r.is, e.reason(r, f, all), r.describe(f))
			if r.is == outcome.UsageLimit {
				v.Reset, v.ResetFrom = e.reset(f, all)
			}
			return v, true
		}
	}
	return Verdict{}, false
}

// reason returns what a failure says, or what other failures say if it is only a code.
func (e End) reason(r rule, f Failure, all []Failure) string {
	if r.says != "" {
		return r.says
	}
	for _, f := range append([]Failure{f}, all...) {
		if text := line(f.Text); text != "" {
			return text
		}
	}
	return meaning(r.is) + " (" + line(cmp.Or(f.Code, fmt.Sprintf("status %d", f.Status))) + ")"
}

// meaning returns what an obstacle is, for people.
func meaning(o outcome.ObstacleKind) string {
	switch o {
	case outcome.UsageLimit:
		return "the usage limit is reached"
	case outcome.RateLimit:
		return "too many requests"
	case outcome.Authentication:
		return "the login or key is not accepted"
	case outcome.Billing:
		return "no money or credits are left"
	case outcome.ContextFull:
		return "the context of the model is full"
	case outcome.Refused:
		return "the model or its safety filter declined"
	case outcome.Overloaded:
		return "the server of the model has failed or is overloaded"
	case outcome.Network:
		return "the connection to the model failed"
	case outcome.ModelLimitation:
		return "the model gave no complete answer"
	}
	return strings.ReplaceAll(string(o), "_", " ")
}

// reset returns when the limit that a failure reports ends: as it was reported, or as a text for people
// says.
func (e End) reset(f Failure, all []Failure) (time.Time, Source) {
	all = append([]Failure{f}, all...)
	for _, f := range all {
		if !f.Reset.IsZero() {
			return f.Reset, f.Source
		}
	}
	local := e.Local
	if local == nil {
		local = time.Local
	}
	for _, f := range all {
		for _, find := range []func(string, time.Time, *time.Location) time.Time{codexReset, claudeReset} {
			if at := find(f.Text, e.Now, local); !at.IsZero() {
				return at, FromMessage
			}
		}
	}
	return time.Time{}, ""
}

// maxReason bounds a reason, in bytes.
const maxReason = 300

// line returns a text as a line for people.
func line(text string) string {
	return plaintext.OneLine(strings.TrimSpace(text), maxReason)
}
