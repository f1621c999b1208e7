package web

import (
	"context"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/doctor"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/status"
)

// setting is a value of the configuration.
type setting struct{ Key, Value, Place, Instead string }

// configData is what the page of the configuration shows next to its parts.
type configData struct {
	Query    string
	Settings []setting
	Error    string // what is wrong with the file
	Shown    int
}

// shownSettings is the maximum number of values on a page.
const shownSettings = 2000

// configPage shows the values of the file with their places, and what reconciling would do now.
func (s *pages) configPage(ctx context.Context, q query) (*page, error) {
	st, err := status.Get.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	plan, err := pool.Patrol.Call(ctx, s.Client, pool.PatrolRequest{DryRun: true})
	if err != nil {
		return nil, err
	}
	p := &page{title: "Configuration", nav: "config", template: "config"}
	p.parts, err = s.parts(map[string]any{"in-force": inForce{st, q.role == operator}, "plan": plan})
	if err != nil || q.parts {
		return p, err
	}
	loaded, invalid := config.LoadAll(s.File)
	d := configData{Query: q.get("q")}
	if invalid != nil {
		d.Error = invalid.Error()
	}
	for _, o := range loaded.Values() {
		v := setting{Key: o.Key, Value: o.TOML(), Place: o.Place()}
		if o.Removed {
			v.Value = "removed"
		}
		if q.role != operator && strings.Contains(o.Key, ".env.") { // often a secret
			v.Value = "…"
		} else if len(o.Overrode) > 0 {
			v.Instead = o.Overrode[0].TOML() + " in " + o.Overrode[0].Place()
		}
		if d.Shown < shownSettings && hasWords(v.Key+" "+v.Value+" "+v.Place, d.Query) {
			d.Settings = append(d.Settings, v)
			d.Shown++
		}
	}
	p.data = d
	return p, nil
}

// inForce is the file in force.
type inForce struct {
	status.Status
	Operator bool
}

// finding is a finding of coppice doctor.
type finding struct {
	doctor.Finding
	Tone status.Tone
}

// systemData is what the page of the system shows next to its parts.
type systemData struct {
	Asked    bool
	Findings []finding
	Error    string
}

// systemPage shows the daemon, and what coppice doctor finds when it is asked.
func (s *pages) systemPage(ctx context.Context, q query) (*page, error) {
	st, err := status.Get.Call(ctx, s.Client, api.None{})
	if err != nil {
		return nil, err
	}
	v := summaryOf(st)
	p := &page{title: "System", nav: "system", template: "system"}
	if p.parts, err = s.parts(map[string]any{"daemon": v}); err != nil || q.parts {
		return p, err
	}
	d := systemData{Asked: q.get("check") != ""}
	if d.Asked {
		found, err := doctor.Check(ctx, s.File, false)
		if err != nil {
			d.Error = err.Error()
		}
		for _, f := range found {
			tone := status.Bad
			switch f.Level {
			case doctor.LevelOK, doctor.LevelFixed:
				tone = status.Good
			case doctor.LevelWarning:
				tone = status.Busy
			}
			d.Findings = append(d.Findings, finding{f, tone})
		}
		slices.SortStableFunc(d.Findings, func(a, b finding) int { return worse(a.Tone) - worse(b.Tone) })
	}
	p.data = d
	return p, nil
}

// worse orders findings: problems come first.
func worse(t status.Tone) int {
	return slices.Index([]status.Tone{status.Bad, status.Busy, status.Good}, t)
}

// hasWords reports whether a text has all words of a search.
func hasWords(text, search string) bool {
	text = strings.ToLower(text)
	for _, word := range strings.Fields(strings.ToLower(search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
