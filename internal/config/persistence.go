package config

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

func persistenceTable() table[file] {
	return table[file]{
		header: "[persistence]",
		doc:    "Where the state of the project is kept: beliefs, restart counters, stops by hand and the event log.",
		example: `[persistence]
backend = "sqlite"
path = ".sage/db_guardian.db"
events_max_age = "2160h"
`,
		keys: []key[file]{
			{row{name: "backend", typ: "sqlite, memory", def: "sqlite", doc: "`sqlite` is a file that outlives " +
				"everything; with `memory` all of it ends with the daemon: agents still outlive it, but the next " +
				"one knows neither their beliefs nor what was stopped by hand",
				also: []string{"kind", "type", "store"}},
				word(spec.ParseBackend, func(f *file) *spec.Backend { return &f.persistence.Backend })},
			{row{name: "path", typ: "string", def: "`.coppice/state.db`",
				doc:  "the file of `sqlite`, relative to this file; its directory is made",
				also: []string{"file", "database", "dsn"}},
				func(r *reader, v *value, into *file) {
					if path, ok := r.text(v, "a path"); ok {
						into.persistence.Path, into.database = path, v
					}
				}},
			{row{name: "events_max_age", typ: durationOrNeverType, def: "720h", doc: "how long an event is kept. " +
				"Older ones are removed from the beginning of the log, a few at a time; the file keeps its size " +
				"and uses the room again. `coppice events` says where some are gone (`events.compacted`)",
				also: []string{"events_keep", "retention"}},
				func(r *reader, v *value, into *file) {
					if v.kind == isString && v.text == "never" {
						into.retention.MaxAge = -1
					} else if d, ok := r.duration(v); ok {
						into.retention.MaxAge = d
					}
				}},
			{row{name: "events_max_size", typ: "size", def: "256MiB",
				doc: "how large the event log may be, at least 1 MiB", also: []string{"events_size"}},
				func(r *reader, v *value, into *file) {
					switch n, ok := r.size(v); {
					case ok && n < spec.MinEventBytes:
						r.fail(v.at, v, "", "events_max_size is %s, expected at least 1 MiB", v.text)
					case ok:
						into.retention.MaxBytes = n
					}
				}},
		},
	}
}

// persistence finishes what [persistence] says.
func (r *reader) persistence(f *file, dir string) {
	p := &f.persistence
	if p.Path == "" {
		return
	}
	if p.Backend == spec.Memory {
		r.fail(f.database.at, f.database, "remove it, or write backend = \"sqlite\"",
			"path is %s, expected none where the backend is memory", spec.Quote(p.Path))
		return
	}
	if strings.ContainsRune(p.Path, 0) || strings.HasSuffix(p.Path, "/") {
		r.fail(f.database.at, f.database, "", "path is %s, expected the name of a file", spec.Quote(p.Path))
		return
	}
	if p.Path == ":memory:" || strings.HasPrefix(p.Path, "file:") {
		r.fail(f.database.at, f.database, `for a state that ends with the daemon write backend = "memory"`,
			"path is %s, expected the name of a file", spec.Quote(p.Path))
		return
	}
	p.Path = under(dir, p.Path)
}
