package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

func triggerTable() table[aidefileForm] {
	return table[aidefileForm]{
		header: "[trigger]",
		doc: "What starts a run. `\"manual\"`: a person, with `coppice start` or `coppice fire`, which works with " +
			"all others, too. `\"cron:EXPR\"`: a time, with the expressions of orders, in five fields " +
			"or in six with seconds. " +
			"`\"issue\"`: an open issue, in the GitHub repository of the directory, with the agent's label; its " +
			"text is the task, and a run that succeeds closes it. A trigger that fires during a run, or while a " +
			"restart is pending, starts nothing.",
		example: "[trigger]\non = [\"issue\", \"cron:*/30 * * * *\"]\ntimezone = \"Europe/Berlin\"\n",
		keys: []key[aidefileForm]{
			{row{name: "on", typ: "string or array of strings", def: `"manual"`,
				doc:  "`manual`, `issue`, `cron:EXPR`, or an array of them",
				also: []string{"when", "type", "trigger", "cron", "schedule"}}, (*reader).triggers},
			{row{name: "timezone", typ: "string", def: "that of the machine",
				doc:  "the time zone of cron expressions: a name such as `Europe/Berlin`, `UTC` or `Local`",
				also: []string{"tz", "zone"}},
				func(r *reader, v *value, into *aidefileForm) { r.zone(v) }},
			{row{name: "label", typ: "string", def: "the name of the agent", doc: "the label of the issues",
				also: []string{"labels"}}, text(func(f *aidefileForm) *string { return &f.Label })},
		},
	}
}

// zone reads a time zone; nil if it is none, which is said.
func (r *reader) zone(v *value) *time.Location {
	name, ok := r.text(v, "the name of a time zone")
	if !ok {
		return nil
	}
	zone, err := cron.LoadZone(name)
	if err != nil {
		r.fail(v.at, v, "", "%s is %s, expected a time zone such as \"Europe/Berlin\", \"UTC\" or \"Local\"",
			r.label(v), spec.Quote(name))
		return nil
	}
	return zone
}

// triggers reads what starts a run.
func (r *reader) triggers(v *value, into *aidefileForm) {
	zone := time.Local // as that of orders
	if z := v.parent.byName["timezone"]; z != nil && z.kind == isString {
		if known, err := cron.LoadZone(z.text); err == nil { // else it is said where it is read
			zone = known
		}
	}
	all := []*value{v}
	if v.kind == isArray {
		if all = v.elements; len(all) == 0 {
			r.fail(v.at, v, `write "manual"`, "%s is empty, expected a trigger", r.label(v))
			return
		}
	}
	into.Triggers = nil
	for _, e := range all {
		t, ok := r.trigger(e, zone)
		switch {
		case !ok:
		case slices.ContainsFunc(into.Triggers, func(o aidefile.Trigger) bool { return o.String() == t.String() }):
			r.fail(e.at, e, "remove one of the two", "the trigger %s is there twice, expected once", spec.Quote(e.text))
		default:
			into.Triggers = append(into.Triggers, t)
		}
	}
}

func (r *reader) trigger(v *value, zone *time.Location) (t aidefile.Trigger, ok bool) {
	const expected = `"manual", "issue" or "cron:EXPR"`
	text, ok := r.text(v, "a string: "+expected)
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
			at := v.at
			var e *cron.Error
			if errors.As(err, &e) && e.Field != "" {
				at += 1 + strings.Index(text, expr) + e.Offset // in the string
				err = fmt.Errorf("%s %s: %s", e.Field, spec.Quote(e.Text), e.Msg)
			}
			r.fail(at, v, "such as \"cron:*/5 * * * *\": minute, hour, day of month, month, day of week",
				"%s is %s: %v", r.label(v), spec.Quote(text), err)
			return t, false
		}
		return aidefile.Trigger{Kind: aidefile.Cron, Schedule: s}, true
	}
	hint := didYouMean(suggest.Nearest(text, []string{"manual", "issue"}))
	switch {
	case strings.HasPrefix(text, "cron"):
		hint = "write " + spec.Quote("cron:"+strings.TrimLeft(strings.TrimPrefix(text, "cron"), " :="))
	case strings.HasPrefix(text, "webhook:"):
		hint = "a web hook can call coppice fire"
	case hint == "" && strings.Count(text, " ") >= 4:
		hint = "write " + spec.Quote("cron:"+text)
	}
	r.fail(v.at, v, hint, "%s is %s, expected %s", r.label(v), spec.Quote(text), expected)
	return t, false
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
