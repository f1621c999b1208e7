package main

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// flags are the arguments of a sup line. They are checked when the supervisor starts, as in
// Erlang.
type flags struct {
	set                               bool
	strategy, intensity, period, auto term
}

func (f flags) simple() bool { return f.set && isAtom(f.strategy, "simple_one_for_one") }

// childSpec holds the arguments of a child or add line.
type childSpec struct {
	id                                   string
	restart, shutdown, significant, kind term
	starts                               []string // outcome of each attempt, the last one repeats
	stop                                 string
	named                                bool // false in simple_one_for_one: the name comes with the instance
}

func parseFlags(args []string) (flags, error) {
	terms, err := parseTerms(args)
	if err != nil {
		return flags{}, err
	}
	return flags{true, terms[0], terms[1], terms[2], terms[3]}, nil
}

func parseSpec(args []string, named bool) (childSpec, error) {
	terms, err := parseTerms(args[1:5])
	if err != nil {
		return childSpec{}, err
	}
	s := childSpec{args[0], terms[0], terms[1], terms[2], terms[3], nil, args[6], named}
	s.starts = strings.FieldsFunc(args[5], func(c rune) bool { return c == ',' })
	if len(s.starts) == 0 {
		return s, fmt.Errorf("%q: no start outcome", args[5])
	}
	for _, o := range s.starts {
		switch o {
		case "ok", "error", "ignore", "throw":
		default:
			return s, fmt.Errorf("start outcome %q is not one of ok, error, ignore, throw", o)
		}
	}
	if _, err := lingers(s.stop); err != nil {
		return s, err
	}
	return s, nil
}

func parseTerms(args []string) ([]term, error) {
	terms := make([]term, len(args))
	for i, a := range args {
		t, err := parseTerm(a)
		if err != nil {
			return nil, err
		}
		terms[i] = t
	}
	return terms, nil
}

// lingers returns how long a child takes to stop.
func lingers(stop string) (time.Duration, error) {
	switch stop {
	case "obey", "normal", "other", "hang":
		return 0, nil
	}
	ms, ok := strings.CutPrefix(stop, "linger:")
	n, err := strconv.ParseUint(ms, 10, 31)
	if !ok || err != nil {
		return 0, fmt.Errorf("stop %q is not one of obey, normal, other, hang, linger:MS", stop)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// refusal is the reason why a specification is refused.
type refusal struct{ term }

func (r refusal) Error() string { return r.String() }

func refuse(tag string, value term) error { return refusal{tuple{atom(tag), value}} }

// termOf returns the term of a refusal.
func termOf(err error) term {
	r, ok := errors.AsType[refusal](err)
	if !ok {
		panic(err)
	}
	return r.term
}

// toSpec converts the flags and children to a Spec, or refuses them like Erlang. It checks values
// that a Spec cannot hold. Validate checks the rest, at the point where Erlang would.
func toSpec(f flags, children []childSpec) (supervisor.Spec, error) {
	spec, err := f.toSpec()
	if err != nil {
		return spec, refuse("supervisor_data", termOf(err))
	}
	if spec.Strategy == supervisor.SimpleOneForOne && len(children) != 1 {
		l := list{}
		for _, c := range children {
			l.elems = append(l.elems, atom(c.id))
		}
		return spec, refuse("bad_start_spec", l)
	}
	for _, c := range children {
		cs, err := c.toSpec(spec)
		if err == nil {
			spec.Children = append(spec.Children, cs)
			err = refusalOf(spec.Validate(), c, spec.AutoShutdown)
		}
		if err != nil {
			return spec, refuse("start_spec", termOf(err))
		}
	}
	return spec, nil
}

func (f flags) toSpec() (supervisor.Spec, error) {
	if !f.set {
		return supervisor.Spec{Limit: supervisor.Escalating(1, 5*time.Second)}, nil
	}
	var spec supervisor.Spec
	if i, ok := find(f.strategy, supervisor.OneForOne, supervisor.OneForAll, supervisor.RestForOne,
		supervisor.SimpleOneForOne); ok {
		spec.Strategy = i
	} else {
		return spec, refuse("invalid_strategy", f.strategy)
	}
	intensity, ok := natural(f.intensity)
	if !ok {
		return spec, refuse("invalid_intensity", f.intensity)
	}
	period, ok := natural(f.period)
	if !ok || period == 0 {
		return spec, refuse("invalid_period", f.period)
	}
	if intensity > 1<<30 { // the library does not remember so many
		intensity = supervisor.Unlimited
	}
	spec.Limit = supervisor.Escalating(intensity, multiply(period, time.Second))
	if i, ok := find(f.auto, supervisor.NeverShutdown, supervisor.AnySignificant, supervisor.AllSignificant); ok {
		spec.AutoShutdown = i
	} else {
		return spec, refuse("invalid_auto_shutdown", f.auto)
	}
	return spec, nil
}

// toSpec checks in the order of Erlang: restart, significant, type, shutdown.
func (c childSpec) toSpec(sup supervisor.Spec) (supervisor.ChildSpec, error) {
	spec := supervisor.ChildSpec{ID: libraryID(c.id), Start: noStart}
	restart, ok := find(c.restart, otpRestart{supervisor.Permanent}, otpRestart{supervisor.Transient},
		otpRestart{supervisor.Temporary})
	if !ok {
		return spec, refuse("invalid_restart_type", c.restart)
	}
	spec.Restart = restart.Restart
	spec.Significant = isAtom(c.significant, "true")
	if !spec.Significant && !isAtom(c.significant, "false") {
		return spec, refuse("invalid_significant", c.significant)
	}
	sup.Children = []supervisor.ChildSpec{spec}
	if err := refusalOf(sup.Validate(), c, sup.AutoShutdown); err != nil {
		return spec, err
	}
	if spec.Type, ok = find(c.kind, supervisor.Worker, supervisor.SupervisorType); !ok {
		return spec, refuse("invalid_child_type", c.kind)
	}
	ms, ok := natural(c.shutdown)
	switch {
	case isAtom(c.shutdown, "infinity"):
		spec.Shutdown = supervisor.Infinity
	case isAtom(c.shutdown, "brutal_kill"):
		spec.Shutdown = supervisor.BrutalKill
	case !ok:
		return spec, refuse("invalid_shutdown", c.shutdown)
	case ms == 0:
		spec.Shutdown = 1 // the zero value would be the default
	default:
		spec.Shutdown = multiply(ms, time.Millisecond)
	}
	return spec, nil
}

// refusalOf translates an error of the library about a child into the terms of Erlang.
func refusalOf(err error, c childSpec, auto supervisor.AutoShutdown) error {
	var e *supervisor.SpecError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
	case e.Field == "Children":
		return refuse("duplicate_child_name", atom(c.id))
	case e.Field == "Significant" && auto == supervisor.NeverShutdown:
		return refuse("bad_combination", significant("auto_shutdown", "never"))
	case e.Field == "Significant":
		return refuse("bad_combination", significant("restart", "permanent"))
	}
	return refuse("library", chars(err.Error()))
}

func significant(key, value string) list {
	return list{elems: []term{tuple{atom(key), atom(value)}, tuple{atom("significant"), atom("true")}}}
}

// libraryID returns an ID that the library accepts, without "/".
func libraryID(id string) string { return url.PathEscape(id) }

// scriptID is the inverse of libraryID.
func scriptID(id string) string {
	s, err := url.PathUnescape(id)
	if err != nil {
		return id
	}
	return s
}

// otpRestart is a restart policy with its name in Erlang.
type otpRestart struct{ supervisor.Restart }

func (r otpRestart) String() string {
	return [...]string{supervisor.Permanent: "permanent", supervisor.Transient: "transient",
		supervisor.Temporary: "temporary"}[r.Restart]
}

// find returns the value whose name is t.
func find[T fmt.Stringer](t term, values ...T) (T, bool) {
	for _, v := range values {
		if isAtom(t, v.String()) {
			return v, true
		}
	}
	var none T
	return none, false
}

// natural returns the value of a natural number. One that is too large becomes the maximum, which
// is never reached either.
func natural(t term) (int, bool) {
	n, ok := t.(integer)
	if !ok || n.Sign() < 0 {
		return 0, false
	}
	if !n.IsInt64() {
		return math.MaxInt, true
	}
	return int(n.Int64()), true
}

func multiply(n int, unit time.Duration) time.Duration {
	if n > int(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
