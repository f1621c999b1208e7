package aidefile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/spec"
)

func triggerTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[trigger]",
		Doc: "What starts a run. `\"manual\"`: a person, with `coppice start` or `coppice fire`, which work with " +
			"all other triggers as well. `\"cron:EXPR\"`: a schedule, written as those of orders, in five fields " +
			"or in six with seconds. `\"issue\"`: an open issue with the agent's label in the GitHub repository " +
			"of the directory; its text is the task, and a run that succeeds closes it. A trigger that fires " +
			"during a run, or while a restart is pending, starts nothing.",
		Example: "[trigger]\non = [\"issue\", \"cron:*/30 * * * *\"]\ntimezone = \"Europe/Berlin\"\n",
		Keys: []toml.Key[form]{
			{Name: "on", Type: "string or array of strings", Default: `"manual"`,
				Doc:  "`manual`, `issue`, `cron:EXPR`, or an array of them",
				Also: []string{"when", "type", "trigger", "cron", "schedule"}, Read: readTriggers},
			{Name: "timezone", Type: "string", Default: "that of the machine",
				Doc:  "the time zone of cron expressions: a name such as `Europe/Berlin`, `UTC` or `Local`",
				Also: []string{"tz", "zone"},
				Read: func(r *toml.Reader, v *toml.Value, _ *form) { readZone(r, v) }},
			{Name: "label", Type: "string", Default: "the name of the agent", Doc: "the label of the issues",
				Also: []string{"labels"}, Read: toml.Text(func(f *form) *string { return &f.Label })},
		},
	}
}

// readZone reports an unknown time zone. readTriggers uses known ones.
func readZone(r *toml.Reader, v *toml.Value) {
	name, ok := r.Text(v, "the name of a time zone")
	if !ok {
		return
	}
	if _, err := cron.LoadZone(name); err != nil {
		r.Fail(v, "", "%s is %s, expected a time zone such as \"Europe/Berlin\", \"UTC\" or \"Local\"",
			r.Label(v), spec.Quote(name))
	}
}

// readTriggers reads one trigger, or several.
func readTriggers(r *toml.Reader, v *toml.Value, into *form) {
	zone := time.Local // as for orders
	if z := v.Parent.Field("timezone"); z != nil && z.Kind == toml.KindString {
		if known, err := cron.LoadZone(z.Text); err == nil { // readZone reports an unknown one
			zone = known
		}
	}
	all := []*toml.Value{v}
	if v.Kind == toml.KindArray {
		if all = v.Elements; len(all) == 0 {
			r.Fail(v, `write "manual"`, "%s is empty, expected a trigger", r.Label(v))
			return
		}
	}
	into.Triggers = nil
	for _, e := range all {
		t, ok := readTrigger(r, e, zone)
		switch {
		case !ok:
		case slices.ContainsFunc(into.Triggers, func(o aidefile.Trigger) bool { return o.String() == t.String() }):
			r.Fail(e, "remove one of the two", "the trigger %s is there twice, expected once", spec.Quote(e.Text))
		default:
			into.Triggers = append(into.Triggers, t)
		}
	}
}

func readTrigger(r *toml.Reader, v *toml.Value, zone *time.Location) (t aidefile.Trigger, ok bool) {
	const expected = `"manual", "issue" or "cron:EXPR"`
	text, ok := r.Text(v, "a string: "+expected)
	if !ok {
		return t, false
	}
	expr, isCron := aidefile.CutCron(text)
	switch {
	case text == "manual":
		return t, true
	case text == "issue":
		return aidefile.Trigger{Kind: aidefile.Issue}, true
	case isCron:
		s, err := cron.Parse(expr, zone)
		if err != nil {
			at := v.At
			if e, ok := errors.AsType[*cron.Error](err); ok && e.Field != "" {
				at += 1 + strings.Index(text, expr) + e.Offset // position in the string
				err = fmt.Errorf("%s %s: %s", e.Field, spec.Quote(e.Text), e.Msg)
			}
			r.FailAt(at, v, "such as \"cron:*/5 * * * *\": minute, hour, day of month, month, day of week",
				"%s is %s: %v", r.Label(v), spec.Quote(text), err)
			return t, false
		}
		return aidefile.Trigger{Kind: aidefile.Cron, Schedule: s}, true
	}
	hint := spec.DidYouMean(text, "manual", "issue")
	switch {
	case strings.HasPrefix(text, "cron"):
		hint = "write " + spec.Quote("cron:"+strings.TrimLeft(strings.TrimPrefix(text, "cron"), " :="))
	case strings.HasPrefix(text, "webhook:"):
		hint = "a web hook can call coppice fire"
	case hint == "" && strings.Count(text, " ") >= 4:
		hint = "write " + spec.Quote("cron:"+text)
	}
	r.Fail(v, hint, "%s is %s, expected %s", r.Label(v), spec.Quote(text), expected)
	return t, false
}

// isVariable reports whether name can name an environment variable of a shell.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
