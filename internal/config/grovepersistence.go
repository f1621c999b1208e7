package config

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Persistence says where the beliefs of a Sage program are kept.
type Persistence struct {
	Backend spec.Backend
	// Path is the database of SQLite; it means nothing to others.
	Path Setting[string]
}

// beliefsTable reads [persistence] of a Sage project, where path is otherwise the default.
func beliefsTable(otherwise string) table[Persistence] {
	return table[Persistence]{
		header: "[persistence]",
		doc:    "Where persistent beliefs are kept.",
		example: `[persistence]
backend = "sqlite"
path = ".sage/shop.db"
`,
		keys: []key[Persistence]{
			{row{name: "backend", typ: "sqlite, memory", def: "sqlite", doc: "`sqlite` keeps them in a file, where " +
				"they survive whatever happens to the program; `memory` keeps them for restarts of an " +
				"agent, until the program ends", also: []string{"driver", "type", "store", "kind"}},
				word(spec.ParseBackend, func(p *Persistence) *spec.Backend { return &p.Backend })},
			{row{name: "path", typ: "string", def: otherwise, doc: "the database of `sqlite`, relative to the " +
				"directory of this file; it is created where it does not exist",
				also: []string{"file", "database", "db", "filename"}},
				func(r *reader, v *value, into *Persistence) {
					if v.kind == isString && strings.HasPrefix(v.text, ":memory:") {
						r.fail(v.at, v, `write backend = "memory" for none`,
							"path is %s, expected the path of a file", spec.Quote(v.text))
						return
					}
					pathKey(func(p *Persistence) *Setting[string] { return &p.Path })(r, v, into)
				}},
		},
	}
}
