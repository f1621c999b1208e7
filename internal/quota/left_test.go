package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/spec"
)

// An account is used up if a limit says so that applies, and that resets when such a limit can.
func TestUsedUp(t *testing.T) {
	in := func(d time.Duration) time.Time { return t0.Add(d) }
	w := func(name string, used float64, resets time.Time) agentcli.Window {
		return agentcli.Window{Name: name, Used: used, Resets: resets}
	}
	day := 24 * time.Hour
	all := func(all ...agentcli.Window) []agentcli.Window { return all }
	hours := w(limits.FiveHour, 1, in(time.Hour))
	clockIsLate := in(5*time.Hour + time.Minute)
	for name, c := range map[string]struct {
		windows []agentcli.Window
		extra   bool
		want    time.Time
	}{
		"nothing known":      {nil, false, time.Time{}},
		"some left":          {all(w(limits.FiveHour, 0.99, in(time.Hour))), false, time.Time{}},
		"five hours":         {all(hours), false, in(time.Hour)},
		"seven days":         {all(w(limits.SevenDay, 1, in(6*day))), false, in(6 * day)},
		"money left":         {all(w(limits.SevenDay, 1, in(6*day))), true, time.Time{}},
		"the longest":        {all(hours, w(limits.SevenDay, 1, in(day))), false, in(day)},
		"the longest, first": {all(w(limits.SevenDay, 1, in(day)), hours), false, in(day)},
		"the used one":       {all(hours, w(limits.SevenDay, 0.5, in(day))), false, in(time.Hour)},
		"it has been reset":  {all(w(limits.FiveHour, 1, t0)), false, time.Time{}},
		"no reset":           {all(w(limits.FiveHour, 1, time.Time{})), false, time.Time{}},
		"too late":           {all(w(limits.FiveHour, 1, in(7*time.Hour))), false, time.Time{}},
		"much too late":      {all(w(limits.SevenDay, 1, t0.AddDate(1, 0, 0))), false, time.Time{}},
		"the clock is late":  {all(w(limits.FiveHour, 1, clockIsLate)), false, clockIsLate},
		"its model":          {all(w("seven_day_opus", 1, in(day))), false, in(day)},
		"another model":      {all(w("seven_day_sonnet", 1, in(day))), false, time.Time{}},
		"unknown":            {all(w("overage", 1, in(day))), false, time.Time{}},
	} {
		a := limits.Answer{Windows: c.windows, Extra: c.extra}
		got, ok := usedUp(a, t0, func(model string) bool { return model == "opus" })
		if !got.Resets.Equal(c.want) || ok == c.want.IsZero() {
			t.Errorf("%s: %v, %v, expected %v", name, got, ok, c.want)
		}
	}
}

// The limit of a model counts if all agents of the account are known to use that model.
func TestOnlyUses(t *testing.T) {
	agents := func(all ...[]string) Fleet {
		f := Fleet{Agents: map[string]*spec.Agent{"t/other": {Command: []string{"codex"}}}}
		for i, arguments := range all {
			f.Agents[fmt.Sprint("t/", i)] = &spec.Agent{Command: append([]string{"claude", "-p"}, arguments...)}
		}
		return f
	}
	for _, c := range []struct {
		fleet Fleet
		opus  bool
	}{
		{agents(), false},
		{agents([]string{}), false},
		{agents([]string{"--model", "opus"}), true},
		{agents([]string{"--model", "claude-Opus-4-5"}, []string{"--model=opus[1m]"}), true},
		{agents([]string{"--model", "opus"}, []string{"--model", "sonnet"}), false},
		{agents([]string{"--model", "opus"}, []string{}), false},
		{agents([]string{"--model", "opusplan"}), false},
	} {
		if got := c.fleet.onlyUses("claude", "opus"); got != c.opus {
			t.Errorf("%+v: %v", c.fleet.Agents, got)
		}
	}
}

// An agent has to wait for an answer if nothing is known lately, or before a try whose reset is not known.
func TestNeedsAnswer(t *testing.T) {
	before, long := t0.Add(-time.Second), t0.Add(-fresh)
	for _, c := range []struct {
		pool  Pool
		heard time.Time
		needs bool
	}{
		{Pool{State: Open}, time.Time{}, true},
		{Pool{State: Open}, long, true},
		{Pool{State: Open}, before, false},
		{Pool{State: Parked, Until: t0}, before, true},
		{Pool{State: Parked, Until: t0}, t0, false},
		{Pool{State: Parked, Until: t0, Reset: t0}, long, false},
		{Pool{State: Probing}, time.Time{}, false},
		{Pool{State: Stopped}, time.Time{}, false},
	} {
		if got := c.pool.needsAnswer(c.heard, t0); got != c.needs {
			t.Errorf("%+v, heard at %v: %v", c.pool, c.heard, got)
		}
	}
}

// The names of limits are words for people.
func TestWindowText(t *testing.T) {
	for name, text := range map[string]string{
		"five_hour": "5 hours", "seven_day": "7 days", "seven_day_opus": "7 days of opus", "overage_x": "overage x",
	} {
		if got := WindowText(name); got != text {
			t.Errorf("%s: %q, expected %q", name, got, text)
		}
	}
}
