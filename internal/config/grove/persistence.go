package grove

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Persistence says where the beliefs of a Sage program are kept.
type Persistence struct {
	Backend spec.Backend
	// Path is the database of SQLite; it means nothing to others.
	Path toml.Setting[string]
}

// beliefsTable reads [persistence] of a Sage project, where path is otherwise the default.
func beliefsTable(otherwise string) toml.Table[Persistence] {
	return toml.Table[Persistence]{
		Header: "[persistence]",
		Doc:    "Where persistent beliefs are kept.",
		Example: `[persistence]
backend = "sqlite"
path = ".sage/shop.db"
`,
		Keys: []toml.Key[Persistence]{
			{Name: "backend", Type: "sqlite, memory", Default: "sqlite", Doc: "`sqlite` keeps them in a file, where " +
				"they survive whatever happens to the program; `memory` keeps them for restarts of an " +
				"agent, until the program ends", Also: []string{"driver", "type", "store", "kind"},
				Read: toml.Word(spec.ParseBackend, func(p *Persistence) *spec.Backend { return &p.Backend })},
			{Name: "path", Type: "string", Default: otherwise, Doc: "the database of `sqlite`, relative to the " +
				"directory of this file; it is created where it does not exist",
				Also: []string{"file", "database", "db", "filename"},
				Read: func(r *toml.Reader, v *toml.Value, into *Persistence) {
					if v.Kind == toml.KindString && strings.HasPrefix(v.Text, ":memory:") {
						r.Fail(v, `write backend = "memory" for none`,
							"path is %s, expected the path of a file", spec.Quote(v.Text))
						return
					}
					toml.PathKey(func(p *Persistence) *toml.Setting[string] { return &p.Path })(r, v, into)
				}},
		},
	}
}
