package setting

import (
	"cmp"
	"time"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Limit has the keys of a limit that a table sets; nil where it does not.
type Limit struct {
	Max    *int
	within *time.Duration
	then   *supervisor.LimitAction
}

// Or fills in from other what l does not say. The numbers of one action mean
// little to another, which counts something else: they are taken only where
// the action is the same.
func (l Limit) Or(other Limit) Limit {
	if l.then != nil && *l.then != other.action(supervisor.Escalate) {
		return l
	}
	return Limit{cmp.Or(l.Max, other.Max), cmp.Or(l.within, other.within), cmp.Or(l.then, other.then)}
}

func (l Limit) action(otherwise supervisor.LimitAction) supervisor.LimitAction {
	if l.then != nil {
		return *l.then
	}
	return otherwise
}

// Over returns the limit, with what is still open filled in from the row of
// its action: rows differ in what they count as well as in their numbers.
func (l Limit) Over(scope supervisor.Scope, then supervisor.LimitAction) supervisor.Limit {
	row := defaultLimit(l.action(then))
	if l.Max != nil {
		row.Max = *l.Max
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

// MaxType is the type of the greatest number of restarts, as rows name it.
const MaxType = `an integer from 0 or "unlimited"`

// LimitSchema returns the schema of a number from low on, or "unlimited".
func LimitSchema(low int) toml.Schema {
	return toml.Schema{"anyOf": []toml.Schema{{"type": "integer", "minimum": low}, {"const": "unlimited"}}}
}

// MaxRestarts returns the key max_restarts.
func MaxRestarts[T any](def, doc string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: "max_restarts", Type: MaxType, Default: def, Doc: doc,
		Also: []string{"intensity", "max_retries", "retries"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) { ReadMaxRestarts(r, v, of(into)) }}
}

// ReadMaxRestarts reads the greatest number of restarts.
func ReadMaxRestarts(r *toml.Reader, v *toml.Value, into *Limit) {
	into.Max = cmp.Or(r.IntegerOrUnlimited(v, 0, spec.MaxRestarts), into.Max)
}

// Window returns the key of the window in which restarts count, a duration.
func Window[T any](name, def, doc string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: name, Type: "duration", Default: def, Doc: doc,
		Also: []string{"within", "within_seconds", "restart_window", "window", "period", "max_seconds"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			if d, ok := r.Duration(v); ok {
				of(into).within = &d
			}
		}}
}

// WindowSeconds reads the window of a supervisor in seconds.
func WindowSeconds[T any](def string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: "within_seconds", Type: "integer", Default: def,
		Doc:  "the window in which restarts count, in seconds",
		Also: []string{"within", "window", "restart_window", "restart_window_s", "period"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			if d, ok := r.Whole(v, time.Second, "seconds"); ok {
				of(into).within = &d
			}
		}}
}

// OnLimit returns the key on_limit.
func OnLimit[T any](def, doc string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: "on_limit", Type: "escalate, quarantine, give_up, pause", Default: def, Doc: doc,
		Also: []string{"then"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			const none = supervisor.LimitAction(255)
			then := none
			self := func(a *supervisor.LimitAction) *supervisor.LimitAction { return a }
			if toml.Word(supervisor.ParseLimitAction, self)(r, v, &then); then != none {
				of(into).then = &then
			}
		}}
}
