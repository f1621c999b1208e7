package orders

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/config/ondisk"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/lookpath"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// finish checks an order that was read, and fills in its defaults.
func finish(r *toml.Reader, o *form, s *Settings, dir string, skipped bool) {
	place := r.Place(o.table)
	o.Source = fmt.Sprintf("%s:%d:%d", place.File, place.Line, place.Column)
	o.Dir = toml.Absolute(dir, o.Dir)
	exec, task, formula := o.table.Field("exec"), o.table.Field("task"), o.table.Field("formula")
	switch {
	case exec == nil && task == nil && formula == nil:
		if !r.IsFaulty(o.table) {
			r.Fail(o.table, "write exec or task",
				"the order %s does nothing, expected one of exec and task", spec.Quote(o.Name))
		}
	case exec != nil && (task != nil || formula != nil):
		r.Fail(exec, "remove one of them, or make two orders",
			"the order %s has exec and a task, expected one of them", spec.Quote(o.Name))
	case task != nil && formula != nil:
		r.Fail(formula, "remove it", "formula and task, expected one of them")
	case o.pool != "" && o.Task == nil:
		r.Fail(o.table.Field("pool"), "remove it, or write a task",
			"pool without a task, expected one that its agents can do")
	case o.pool != "":
		o.Task.Pool = o.pool
	}
	o.Timeout = cmp.Or(o.Timeout, spec.DefaultOrderTimeout)
	if s.maxTimeout > 0 {
		o.Timeout = min(o.Timeout, s.maxTimeout)
	}
	if o.Backoff.Kind == supervisor.NoBackoff && o.table.Field("backoff") == nil {
		o.Backoff.Kind = supervisor.Exponential
	}
	o.Backoff.Base = cmp.Or(o.Backoff.Base, retryDelay)
	if v := o.table.Field("retry_delay"); v != nil && o.Backoff.Base > supervisor.DefaultBackoffCap {
		r.Fail(v, "", "retry_delay is %s, expected at most %v", spec.Quote(v.Text), supervisor.DefaultBackoffCap)
	}
	switch {
	case skipped:
		o.Disabled, o.Why = true, "it is in skip of [orders]"
	case o.disabled:
		o.Disabled, o.Why = true, "enabled is false"
	}
	makeGates(r, o)
}

// makeGates builds the gates of an order.
func makeGates(r *toml.Reader, o *form) {
	has := func(name string) bool { return o.table.Field(name) != nil }
	needs := []struct {
		kind spec.GateKind
		key  string
		with []string
	}{
		{spec.Cooldown, "interval", nil},
		{spec.Cron, "schedule", []string{"timezone", "catch_up"}},
		{spec.Condition, "check", []string{"check_timeout", "check_interval"}},
		{spec.Event, "on", []string{"path"}},
	}
	gate := o.table.Field("gate")
	if gate == nil {
		for _, n := range needs {
			if has(n.key) {
				o.gates = append(o.gates, n.kind)
			}
		}
	}
	for _, n := range needs {
		wanted := slices.Contains(o.gates, n.kind)
		if wanted && !has(n.key) {
			r.Fail(gate, "write "+n.key+", or another gate", "the gate %v without %s, expected it",
				n.kind, n.key)
		}
		for _, name := range append([]string{n.key}, n.with...) {
			if v := o.table.Field(name); v != nil && !wanted {
				r.FailKey(v, "", "%s without the gate %v, expected it to be of use", name, n.kind)
			}
		}
	}
	if o.All && len(o.gates) > 1 && slices.Contains(o.gates, spec.Manual) {
		r.Fail(gate, "remove manual", "manual is never open, and match is all: it would never fire")
	}
	for _, kind := range o.gates {
		g := spec.Gate{Kind: kind}
		switch kind {
		case spec.Cron:
			for _, s := range readSchedules(r, o) {
				o.Gates = append(o.Gates, spec.Gate{Kind: kind, Schedule: s})
			}
			continue
		case spec.Cooldown:
			g.Interval = o.interval
		case spec.Condition:
			g.Check, g.Limit, g.Every = o.check, cmp.Or(o.limit, spec.DefaultCheckLimit),
				cmp.Or(o.every, spec.DefaultCheckEvery)
		case spec.Event:
			g.On = spec.EventFilter{Types: o.on, Path: o.path}
		}
		o.Gates = append(o.Gates, g)
	}
	if o.All && len(o.schedules) > 1 {
		r.Fail(o.schedules[1], "write one, or match = \"any\"",
			"two schedules and match is all: they would have to be due at once")
	}
}

// readSchedules parses the schedules of an order.
func readSchedules(r *toml.Reader, o *form) (all []*cron.Schedule) {
	zone := time.Local
	if o.timezone != "" {
		z, err := cron.LoadZone(o.timezone)
		if err != nil {
			r.Fail(o.table.Field("timezone"), "", "%v", err)
			return nil
		}
		zone = z
	}
	for _, v := range o.schedules {
		s, err := cron.Parse(v.Text, zone)
		switch e, _ := errors.AsType[*cron.Error](err); {
		case err == nil:
			all = append(all, s)
		case e.Field != "":
			r.FailAt(v.At+1+e.Offset, v, "", "%s is %s: %s %s: %s", r.Label(v), spec.Quote(v.Text), e.Field,
				spec.Quote(e.Text), e.Msg)
		default:
			r.Fail(v, "", "%s is %s: %s", r.Label(v), spec.Quote(v.Text), e.Msg)
		}
	}
	return all
}

// checkFiles reports a directory or a command of an order that cannot be used.
func checkFiles(r *toml.Reader, o *form) {
	info, err := os.Stat(o.Dir)
	if err != nil || !info.IsDir() {
		v := cmp.Or(o.table.Field("dir"), o.table)
		r.Fail(v, "create it with mkdir", "the directory %s of the order %s does not exist", spec.Quote(o.Dir),
			spec.Quote(o.Name))
		return
	}
	search := ondisk.SearchPath(o.Env, "")
	for name, argv := range map[string][]string{"exec": o.Command, "check": o.check} {
		v := o.table.Field(name)
		if v == nil || len(argv) == 0 || argv[0] == "" {
			continue
		}
		if _, err := lookpath.Find(argv[0], o.Dir, search); err != nil {
			r.Fail(v, "check the path, and whether it is executable",
				"the command %s of the order %s cannot be run: %v", spec.Quote(argv[0]), spec.Quote(o.Name),
				toml.Reason(err))
		}
	}
}
