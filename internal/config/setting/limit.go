package setting

import (
	"cmp"
	"time"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Limit holds the keys of a limit. A key that is not set is nil.
type Limit struct {
	Max    *int
	within *time.Duration
	then   *supervisor.LimitAction
}

// Or returns l with missing keys filled in from other. Each action counts something else, so
// numbers are only taken from a limit with the same action.
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

// Over returns the limit for a scope. Missing keys come from the defaults of its action, or
// of then if no action is set.
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

// defaultLimit returns the default limit of an action.
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

// MaxType is the type of max_restarts in rows.
const MaxType = `an integer from 0 or "unlimited"`

// LimitSchema returns the schema of an integer of at least low, or "unlimited".
func LimitSchema(low int) toml.Schema {
	return toml.Schema{"anyOf": []toml.Schema{{"type": "integer", "minimum": low}, {"const": "unlimited"}}}
}

// MaxRestarts returns the key max_restarts.
func MaxRestarts[T any](def, doc string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: "max_restarts", Type: MaxType, Default: def, Doc: doc,
		Also: []string{"intensity", "max_retries", "retries"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) { ReadMaxRestarts(r, v, of(into)) }}
}

// ReadMaxRestarts reads the largest number of restarts.
func ReadMaxRestarts(r *toml.Reader, v *toml.Value, into *Limit) {
	into.Max = cmp.Or(r.IntegerOrUnlimited(v, 0, spec.MaxRestarts), into.Max)
}

// Window returns the key of the window in which restarts count, as a duration.
func Window[T any](name, def, doc string, of func(*T) *Limit) toml.Key[T] {
	return toml.Key[T]{Name: name, Type: "duration", Default: def, Doc: doc,
		Also: []string{"within", "within_seconds", "restart_window", "window", "period", "max_seconds"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			if d, ok := r.Duration(v); ok {
				of(into).within = &d
			}
		}}
}

// WindowSeconds returns the key of the window in seconds.
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
