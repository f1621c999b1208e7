package config

import (
	"cmp"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-dev/coppice/internal/config/ondisk"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/lookpath"
	"github.com/coppice-dev/coppice/internal/spec"
)

// serviceForm is a [[service]] while it is read.
type serviceForm struct {
	spec.Service
	table *toml.Value
}

func serviceTable() toml.Table[serviceForm] {
	return toml.Table[serviceForm]{
		Header: "[[service]]",
		Doc: "Something outside of the project, such as a registry, and the command that tells whether it works. A " +
			"task that is blocked until the service works is opened by the check; without a check a person is " +
			"asked. The check runs while tasks wait for the service, once for all of them. See " +
			"[Tasks](tasks.md#conditions). What runs as a process of the fleet is an `[[agent]]`.",
		Example: `[[service]]
name = "registry"
check = "curl -fsS -o /dev/null https://registry.example.com/health"
interval = "1m"
`,
		Keys: []toml.Key[serviceForm]{
			{Name: "name", Type: "string", Default: toml.Required, Doc: "the name by which outcomes refer to it, as " +
				"in `--until service=registry`; unique, whatever its case", Also: []string{"id"},
				Read: toml.Text(func(s *serviceForm) *string { return &s.Name })},
			{Name: "check", Type: "string or array of strings", Default: toml.Required,
				Doc:  "a command; exit code 0 means that the service works. It runs in the directory of this file",
				Also: []string{"command", "test", "probe", "health", "healthcheck", "ready"},
				Read: setting.CommandKey(func(s *serviceForm) *[]string { return &s.Check })},
			{Name: "interval", Type: "duration", Default: "30s", Doc: "the time from one check to the next",
				Also: []string{"check_interval", "every", "poll", "poll_interval"},
				Read: toml.Duration(func(s *serviceForm) *time.Duration { return &s.Interval })},
			{Name: "timeout", Type: "duration", Default: "10s", Doc: "how long `check` may take; then it has failed",
				Also: []string{"check_timeout", "limit"},
				Read: toml.Duration(func(s *serviceForm) *time.Duration { return &s.Timeout })},
		},
	}
}

// finishServices checks the services of a file, and returns them.
func (f *file) finishServices(r *toml.Reader, dir string, onDisk bool) (all []spec.Service) {
	for i := range f.services {
		s := &f.services[i]
		name, check := cmp.Or(s.table.Field("name"), s.table), s.table.Field("check")
		switch {
		case r.IsFaulty(s.table) || r.IsFaulty(name):
			continue
		case i == spec.MaxServices:
			r.Fail(s.table, "", "there are %d services, expected at most %d", len(f.services), spec.MaxServices)
			return all
		case len(s.Name) > spec.MaxServiceName || strings.ContainsFunc(s.Name, unicode.IsControl):
			r.Fail(name, "", "the name %s, expected one line of at most %d bytes", spec.Quote(s.Name),
				spec.MaxServiceName)
			continue
		case spec.FindService(all, s.Name) != nil:
			r.Fail(name, "", "the name %s is taken by another service, expected another one", spec.Quote(s.Name))
			continue
		}
		s.Dir, s.Interval = dir, cmp.Or(s.Interval, spec.DefaultCheckEvery)
		s.Timeout = cmp.Or(s.Timeout, spec.DefaultCheckLimit)
		if onDisk && len(s.Check) > 0 && !r.IsFaulty(check) {
			if _, err := lookpath.Find(s.Check[0], dir, ondisk.SearchPath(nil, "")); err != nil {
				r.Fail(check, "check the path, and whether it is executable",
					"the check %s of the service %s cannot be run: %v", spec.Quote(s.Check[0]), spec.Quote(s.Name),
					toml.Reason(err))
			}
		}
		all = append(all, s.Service)
	}
	return all
}
