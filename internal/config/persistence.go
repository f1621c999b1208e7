package config

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Backend is where persistent beliefs are kept.
type Backend uint8

const (
	SQLite Backend = iota // in a file
	Memory                // nowhere: they end with the program
)

var backendNames = [...]string{SQLite: "sqlite", Memory: "memory"}

func (b Backend) String() string {
	if int(b) < len(backendNames) {
		return backendNames[b]
	}
	return fmt.Sprintf("invalid(%d)", uint8(b))
}

// ParseBackend is the inverse of String.
func ParseBackend(text string) (Backend, error) {
	for b, name := range backendNames {
		if name == text {
			return Backend(b), nil
		}
	}
	return 0, fmt.Errorf("unknown backend %q", text)
}

// Persistence says where persistent beliefs are kept.
type Persistence struct {
	Backend Backend
	// Path is the database of SQLite; it means nothing to others.
	Path Setting[string]
}

// persistenceTable reads [persistence], where path is otherwise the default.
func persistenceTable(otherwise string) table[Persistence] {
	return table[Persistence]{
		header: "[persistence]",
		doc:    "Where persistent beliefs are kept.",
		example: `[persistence]
backend = "sqlite"
path = ".sage/shop.db"
`,
		keys: []key[Persistence]{
			{row{name: "backend", typ: "sqlite, memory", def: "sqlite", doc: "`sqlite` keeps them in a file, where they survive whatever happens to the program; `memory` keeps them for restarts of an agent, until the program ends", also: []string{"driver", "type", "store", "kind"}},
				word(ParseBackend, func(p *Persistence) *Backend { return &p.Backend })},
			{row{name: "path", typ: "string", def: otherwise, doc: "the database of `sqlite`, relative to the directory of this file; it is created where it does not exist", also: []string{"file", "database", "db", "filename"}},
				func(r *reader, v *value, into *Persistence) {
					if v.kind == isString && strings.HasPrefix(v.text, ":memory:") {
						r.fail(v.at, v, `write backend = "memory" for none`, "path is %s, expected the path of a file", spec.Quote(v.text))
						return
					}
					pathKey(func(p *Persistence) *Setting[string] { return &p.Path })(r, v, into)
				}},
		},
	}
}
