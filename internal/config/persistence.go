package config

import (
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func persistenceTable() toml.Table[file] {
	return toml.Table[file]{
		Header: "[persistence]",
		Doc: "Where the state of the project is kept: beliefs, restart counters, manual stops and the event " +
			"log.",
		Example: `[persistence]
backend = "sqlite"
path = ".sage/db_guardian.db"
events_max_age = "2160h"
`,
		Keys: []toml.Key[file]{
			{Name: "backend", Type: "sqlite, memory", Default: "sqlite", Doc: "`sqlite` is a file that survives " +
				"restarts of the daemon and the machine. With `memory` the state ends with the daemon: agents " +
				"still outlive it, but the next daemon knows neither their beliefs nor manual stops",
				Also: []string{"kind", "type", "store"},
				Read: toml.Name(func(f *file) *spec.Backend { return &f.persistence.Backend })},
			{Name: "path", Type: "string", Default: "`.coppice/state.db`",
				Doc:  "the file of `sqlite`, relative to this file; its directory is created",
				Also: []string{"file", "database", "dsn"},
				Read: func(r *toml.Reader, v *toml.Value, into *file) {
					if path, ok := r.Text(v, "a path"); ok {
						into.persistence.Path, into.database = path, v
					}
				}},
			{Name: "events_max_age", Type: toml.DurationOrNeverType, Default: "720h",
				Doc: "how long an event is kept. Older ones are removed from the beginning of the log, a few at " +
					"a time; the file keeps its size and reuses the space. `coppice events` reports where events " +
					"are missing (`events.compacted`)",
				Also: []string{"events_keep", "retention"},
				Read: toml.DurationOrNever(func(f *file) *time.Duration { return &f.retention.MaxAge })},
			{Name: "events_max_size", Type: "size", Default: "256MiB",
				Doc: "how large the event log may be, at least 1 MiB", Also: []string{"events_size"},
				Read: toml.Size(spec.MinEventBytes, "1 MiB", func(f *file) *int64 { return &f.retention.MaxBytes })},
		},
	}
}

// finishPersistence checks the path in [persistence] and makes it absolute.
func finishPersistence(r *toml.Reader, f *file, dir string) {
	switch p := &f.persistence; {
	case p.Path == "":
	case p.Backend == spec.Memory:
		r.Fail(f.database, "remove it, or write backend = \"sqlite\"",
			"path is %s, expected none where the backend is memory", spec.Quote(p.Path))
	case strings.ContainsRune(p.Path, 0) || strings.HasSuffix(p.Path, "/"):
		r.Fail(f.database, "", "path is %s, expected the name of a file", spec.Quote(p.Path))
	case p.Path == ":memory:" || strings.HasPrefix(p.Path, "file:"):
		r.Fail(f.database, `for a state that ends with the daemon write backend = "memory"`,
			"path is %s, expected the name of a file", spec.Quote(p.Path))
	default:
		p.Path = toml.Absolute(dir, p.Path)
	}
}
