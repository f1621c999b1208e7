package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// deadmanForm is [deadman] while it is read.
type deadmanForm struct {
	spec.Deadman
	table *toml.Value
}

func deadmanTable() toml.Table[deadmanForm] {
	return toml.Table[deadmanForm]{
		Header: "[deadman]",
		Doc: "A service that tells people when it is no longer pinged, such as Healthchecks: the daemon requests a " +
			"URL at an interval while it works. Changes apply at once. See " +
			"[Notifications](notifications.md#when-the-daemon-itself-is-down).",
		Example: `[deadman]
url = "https://hc-ping.com/0b5c8a3e"
interval = "5m"
`,
		Keys: slices.Concat([]toml.Key[deadmanForm]{
			{Name: "url", Type: "string", Doc: "`http://` or `https://`", Also: []string{"ping", "endpoint", "address"},
				Read: readURL(func(d *deadmanForm) *string { return &d.URL })}},
			secretKeys("url", "the URL, where it is a secret",
				func(d *deadmanForm) *spec.Secret { return &d.URLFrom }),
			[]toml.Key[deadmanForm]{{Name: "interval", Type: "duration", Default: "1m",
				Doc:  "the time from one ping to the next, at least 10 s and at most 24 hours",
				Also: []string{"every", "period", "timeout"},
				Read: func(r *toml.Reader, v *toml.Value, into *deadmanForm) {
					d, ok := r.Duration(v)
					if ok && (d < 10*time.Second || d > 24*time.Hour) {
						r.Fail(v, "", "interval is %s, expected 10s to 24h", spec.Quote(v.Text))
					}
					into.Interval = d
				}}}),
	}
}

// finish checks [deadman], and returns it; nothing if there is none.
func (d *deadmanForm) finish(r *toml.Reader, dir string) spec.Deadman {
	if d.table == nil || r.IsFaulty(d.table) {
		return spec.Deadman{}
	}
	var given []*toml.Value
	for _, key := range []string{"url", "url_env", "url_file"} {
		if v := d.table.Field(key); v != nil {
			given = append(given, v)
		}
	}
	switch {
	case len(given) == 0:
		r.Fail(d.table, "", "[deadman] without url or url_env or url_file, expected one")
	case len(given) > 1:
		r.Fail(given[1], "remove one of them", "%s and %s, expected one of these", given[0].Name, given[1].Name)
	}
	if d.URLFrom.File != "" {
		d.URLFrom.File = toml.Absolute(dir, d.URLFrom.File)
	}
	d.Interval = cmp.Or(d.Interval, spec.DefaultDeadmanInterval)
	return d.Deadman
}
