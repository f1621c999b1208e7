package notify

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// DeadmanForm is [deadman] while it is read.
type DeadmanForm struct {
	spec.Deadman
	Table *toml.Value
}

// DeadmanTable describes [deadman].
func DeadmanTable() toml.Table[DeadmanForm] {
	return toml.Table[DeadmanForm]{
		Header: "[deadman]",
		Doc: "A service that tells people when it is no longer pinged, such as Healthchecks: the daemon requests a " +
			"URL at an interval while it works. Changes apply at once. See " +
			"[Notifications](notifications.md#when-the-daemon-itself-is-down).",
		Example: `[deadman]
url = "https://hc-ping.com/0b5c8a3e"
interval = "5m"
`,
		Keys: slices.Concat([]toml.Key[DeadmanForm]{
			{Name: "url", Type: "string", Doc: "`http://` or `https://`", Also: []string{"ping", "endpoint", "address"},
				Read: setting.URL("url_env", func(d *DeadmanForm) *string { return &d.URL })}},
			secretKeys("url", "the URL, where it is a secret",
				func(d *DeadmanForm) *spec.Secret { return &d.URLFrom }),
			[]toml.Key[DeadmanForm]{{Name: "interval", Type: "duration", Default: "1m",
				Doc:  "the time from one ping to the next, at least 10 s and at most 24 hours",
				Also: []string{"every", "period", "timeout"},
				Read: func(r *toml.Reader, v *toml.Value, into *DeadmanForm) {
					d, ok := r.Duration(v)
					if ok && (d < 10*time.Second || d > 24*time.Hour) {
						r.Fail(v, "", "interval is %s, expected 10s to 24h", spec.Quote(v.Text))
					}
					into.Interval = d
				}}}),
	}
}

// Finish checks [deadman], and returns it; nothing if there is none.
func (d *DeadmanForm) Finish(r *toml.Reader, dir string) spec.Deadman {
	if d.Table == nil || r.IsFaulty(d.Table) {
		return spec.Deadman{}
	}
	var given []*toml.Value
	for _, key := range []string{"url", "url_env", "url_file"} {
		if v := d.Table.Field(key); v != nil {
			given = append(given, v)
		}
	}
	switch {
	case len(given) == 0:
		r.Fail(d.Table, "", "[deadman] without url or url_env or url_file, expected one")
	case len(given) > 1:
		r.Fail(given[1], "remove one of them", "%s and %s, expected one of these", given[0].Name, given[1].Name)
	}
	if d.URLFrom.File != "" {
		d.URLFrom.File = toml.Absolute(dir, d.URLFrom.File)
	}
	d.Interval = cmp.Or(d.Interval, spec.DefaultDeadmanInterval)
	return d.Deadman
}
