package config

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// limit is what a table says about its limit; nil where it says nothing.
type limit struct {
	max    *int
	within *time.Duration
	then   *supervisor.LimitAction
}

// or fills in from other what l does not say. The numbers of one action mean
// little to another, which counts something else: they are taken only where
// the action is the same.
func (l limit) or(other limit) limit {
	if l.then != nil && *l.then != other.action(supervisor.Escalate) {
		return l
	}
	if l.max == nil {
		l.max = other.max
	}
	if l.within == nil {
		l.within = other.within
	}
	if l.then == nil {
		l.then = other.then
	}
	return l
}

func (l limit) action(otherwise supervisor.LimitAction) supervisor.LimitAction {
	if l.then != nil {
		return *l.then
	}
	return otherwise
}

// over returns the limit, with what is still open filled in from the row of
// its action: rows differ in what they count as well as in their numbers.
func (l limit) over(scope supervisor.Scope, then supervisor.LimitAction) supervisor.Limit {
	row := defaultLimit(l.action(then))
	if l.max != nil {
		row.Max = *l.max
	}
	if l.within != nil {
		row.Within = *l.within
	}
	if scope == supervisor.ScopeChild {
		row.Scope = scope
	}
	return row
}

// defaultLimit returns the row of an action with its default numbers.
func defaultLimit(then supervisor.LimitAction) supervisor.Limit {
	switch then {
	case supervisor.Quarantine:
		return spec.DefaultPatrol().Limit
	case supervisor.GiveUp:
		return supervisor.GivingUp(10)
	case supervisor.Pause:
		return supervisor.Pausing(3, 5*time.Minute)
	}
	return supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin)
}

// The keys of a limit, which three tables share.

const maxType = `an integer from 0 or "unlimited"`

// limitSchema is the schema of a number from low on, or "unlimited".
func limitSchema(low int) schema {
	return schema{"anyOf": []schema{{"type": "integer", "minimum": low}, {"const": "unlimited"}}}
}

func maxRestarts[T any](def, doc string, of func(*T) *limit) key[T] {
	return key[T]{row{name: "max_restarts", typ: maxType, def: def, doc: doc,
		also: []string{"intensity", "max_retries", "retries"}},
		func(r *reader, v *value, into *T) {
			r.maxRestarts(v, of(into))
		}}
}

func (r *reader) maxRestarts(v *value, into *limit) {
	n := int64(supervisor.Unlimited)
	if v.kind != isString || v.text != "unlimited" {
		expected := fmt.Sprintf(`an integer from 0 to %d or "unlimited"`, spec.MaxRestarts)
		if v.kind == isString {
			r.fail(v.at, v, "", "max_restarts is %s, expected %s", spec.Quote(v.text), expected)
			return
		}
		var ok bool
		if n, ok = r.integer(v, 0, spec.MaxRestarts, expected); !ok {
			return
		}
	}
	m := int(n)
	into.max = &m
}

func window[T any](name, def, doc string, of func(*T) *limit) key[T] {
	return key[T]{row{name: name, typ: "duration", def: def, doc: doc,
		also: []string{"within", "within_seconds", "restart_window", "window", "period", "max_seconds"}},
		func(r *reader, v *value, into *T) {
			if d, ok := r.duration(v); ok {
				of(into).within = &d
			}
		}}
}

// windowSeconds reads the window of a supervisor in seconds.
func windowSeconds[T any](def string, of func(*T) *limit) key[T] {
	return key[T]{row{name: "within_seconds", typ: "integer", def: def,
		doc:  "the window in which restarts count, in seconds",
		also: []string{"within", "window", "restart_window", "restart_window_s", "period"}},
		func(r *reader, v *value, into *T) {
			if d, ok := r.whole(v, time.Second, "seconds"); ok {
				of(into).within = &d
			}
		}}
}

func onLimit[T any](def, doc string, of func(*T) *limit) key[T] {
	return key[T]{row{name: "on_limit", typ: "escalate, quarantine, give_up, pause", def: def, doc: doc,
		also: []string{"then"}},
		func(r *reader, v *value, into *T) {
			then := supervisor.LimitAction(255)
			self := func(a *supervisor.LimitAction) *supervisor.LimitAction { return a }
			if word(supervisor.ParseLimitAction, self)(r, v, &then); then != 255 {
				of(into).then = &then
			}
		}}
}
