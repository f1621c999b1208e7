// Package grove reads grove.toml, the settings of a Sage project.
package grove

import (
	_ "embed" // head
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is the name of the file that Find looks for.
const FileName = "grove.toml"

// sageName is the former name of the file.
const sageName = "sage.toml"

// Grove is the content of a grove.toml, with defaults filled in.
type Grove struct {
	// Name is the name of the project, a valid segment of paths.
	Name string
	// Version is any text.
	Version string
	// Entry is the path of the program. It is absolute unless Parse got a relative name.
	Entry toml.Setting[string]
	// Persistence is the store of persistent beliefs. Its path is like Entry.
	Persistence Persistence
	// Limit is the limit of each supervisor of the program.
	Limit supervisor.Limit
	// Trace is the format of traces.
	Trace Trace
	// Divine is the command that answers divine, if the project has one.
	Divine Divine
	// TestTimeout limits each test.
	TestTimeout time.Duration
	// Notices are the warnings, in the order of the file.
	Notices []*toml.Notice
}

// Persistence is the store of the beliefs of a Sage program.
type Persistence struct {
	Backend spec.Backend
	// Path is the database of SQLite; other backends ignore it.
	Path toml.Setting[string]
}

// Trace is the format of the events of a program.
type Trace uint8

const (
	NDJSON  Trace = iota // one line of JSON per event
	NoTrace              // no traces
)

func (t Trace) String() string { return spec.EnumName(t, "ndjson", "none") }

// Load reads the grove.toml or sage.toml at path. Paths in it are relative to its directory.
// An error about the file is toml.Errors. If the file does not exist, it wraps
// fs.ErrNotExist.
func Load(path string) (*Grove, error) {
	data, dir, err := toml.Read(path, advice)
	if err != nil {
		return nil, err
	}
	return load(path, dir, data)
}

// Parse reads data, the content of the file called name, without touching the file system.
// Paths in it are relative to the directory of name. The error is toml.Errors.
func Parse(name string, data []byte) (*Grove, error) {
	return load(name, filepath.Dir(name), data)
}

// Find returns the path of the grove.toml, or else the sage.toml, in dir or the nearest
// directory above it. If there is none, the error wraps fs.ErrNotExist.
func Find(dir string) (string, error) { return fileset.Nearest(dir, FileName, sageName) }

// Is reports whether the file at a path is a grove.toml or sage.toml, by its name.
func Is(path string) bool {
	name := filepath.Base(path)
	return name == FileName || name == sageName
}

// advice has the hints for a grove.toml.
var advice = toml.Advice{
	Missing: "`coppice sage new` writes one",
	Large:   "remove what is no setting",
	Page:    "docs/grove.md",
}

// file is a grove.toml while it is read.
type file struct {
	Grove
	limit setting.Limit
}

const (
	defaultEntry = "src/main.sg"
	defaultPath  = ".sage/checkpoints.db"
)

func load(name, dir string, data []byte) (*Grove, error) {
	r, document, err := toml.Open(name, data, advice, sections())
	if err != nil {
		return nil, err
	}
	f := file{Grove: Grove{
		Version: "0.1.0",
		Entry:   toml.Setting[string]{Value: defaultEntry, Place: toml.Place{File: name, Key: "project.entry"}},
		Persistence: Persistence{
			Path: toml.Setting[string]{Value: defaultPath, Place: toml.Place{File: name, Key: "persistence.path"}},
		},
		TestTimeout: 10 * time.Second,
	}}
	fileTable().Read(r, document, &f)
	if f.Persistence.Backend == spec.Memory && f.Persistence.Path.Line > 0 {
		r.Notice(document.Find("persistence", "path"), "path is not used: the backend is memory")
	}
	if filepath.Base(name) == sageName {
		r.AddNotice(r.Source.ErrorAt(0, "", "rename it", sageName+" is the former name of "+FileName))
	}
	if r.Count() > 0 {
		return nil, r.Errors()
	}
	f.Notices = r.SortedNotices()
	f.Limit = f.limit.Over(supervisor.ScopeSupervisor, supervisor.Escalate)
	f.Entry.Value = toml.Absolute(dir, f.Entry.Value)
	f.Persistence.Path.Value = toml.Absolute(dir, f.Persistence.Path.Value)
	return &f.Grove, nil
}

func fileTable() toml.Table[file] {
	itself := func(f *file) *file { return f }
	return toml.Table[file]{
		Doc: "The whole file.",
		Keys: []toml.Key[file]{
			{Name: "project", Type: "table", Default: toml.Required, Doc: "the project itself",
				Also: []string{"package", "workspace"}, Read: toml.Sub(projectTable(), itself)},
			{Name: "persistence", Type: "table", Doc: "where persistent beliefs are kept",
				Also: []string{"checkpoint", "checkpoints", "storage"},
				Read: toml.Sub(persistenceTable(), func(f *file) *Persistence { return &f.Persistence })},
			{Name: "supervision", Type: "table", Doc: "how often supervisors restart",
				Also: []string{"supervisor"}, Read: toml.Sub(supervisionTable(), itself)},
			{Name: "observability", Type: "table", Doc: "how the program is observed",
				Also: []string{"trace", "tracing"}, Read: toml.Sub(observabilityTable(), itself)},
			{Name: "divine", Type: "table", Doc: "the command of an agent that answers `divine`",
				Also: []string{"oracle", "infer", "llm", "model"},
				Read: toml.Sub(divineTable(), func(f *file) *Divine { return &f.Divine })},
			{Name: "test", Type: "table", Doc: "how its tests are run", Also: []string{"tests", "testing"},
				Read: toml.Sub(testTable(), itself)},
			unused("dependencies", "a program is made of the modules of its project"),
			{Name: "tools", Type: "table", Doc: "not used, but accepted",
				Read: func(r *toml.Reader, v *toml.Value, _ *file) {
					if !r.Want(v, toml.KindTable, "a table") {
						return
					}
					for _, tool := range v.Fields {
						if r.Want(tool, toml.KindTable, "a table") {
							r.Notice(tool, "tools.%s is not used", toml.BareKey(tool.Name))
						}
					}
				}},
			unused("extern", "there are no functions of other languages"),
		},
	}
}

// unused returns a table that has no effect. It is accepted because programs written for
// other implementations of Sage have it.
func unused(name, because string) toml.Key[file] {
	return toml.Key[file]{Name: name, Type: "table", Doc: "not used, but accepted: " + because,
		Read: func(r *toml.Reader, v *toml.Value, _ *file) {
			if r.Want(v, toml.KindTable, "a table") {
				r.Notice(v, "%s is not used: %s", name, because)
			}
		}}
}

// unusedText returns a key of a string that has no effect.
func unusedText[T any](name, because string) toml.Key[T] {
	return toml.Key[T]{Name: name, Type: "string", Doc: "not used, but accepted: " + because,
		Read: func(r *toml.Reader, v *toml.Value, _ *T) {
			if _, ok := r.Text(v, "a string"); ok {
				r.Notice(v, "%s is not used: %s", name, because)
			}
		}}
}

func projectTable() toml.Table[file] {
	return toml.Table[file]{
		Header: "[project]",
		Doc:    "The project as a whole.",
		Example: `[project]
name = "shop"
version = "1.2.0"
entry = "src/main.sg"
`,
		Keys: []toml.Key[file]{
			{Name: "name", Type: "string", Default: toml.Required,
				Doc:  "what the project is called; 1 to 64 bytes of printable text without `/`",
				Read: setting.Name(func(f *file) *string { return &f.Name })},
			{Name: "version", Type: "string", Default: "0.1.0", Doc: "the version of the project; any text",
				Read: toml.Text(func(f *file) *string { return &f.Version })},
			{Name: "entry", Type: "string", Default: defaultEntry,
				Doc:  "the file with the `run` of the program, relative to the directory of this file",
				Also: []string{"main", "src", "source"},
				Read: toml.PathKey(func(f *file) *toml.Setting[string] { return &f.Entry })},
		},
	}
}

func persistenceTable() toml.Table[Persistence] {
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
				Read: toml.Name(func(p *Persistence) *spec.Backend { return &p.Backend })},
			{Name: "path", Type: "string", Default: defaultPath, Doc: "the database of `sqlite`, relative to the " +
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
			unusedText[Persistence]("url", "no backend is reached over the network"),
		},
	}
}

func supervisionTable() toml.Table[file] {
	of := func(f *file) *setting.Limit { return &f.limit }
	return toml.Table[file]{
		Header: "[supervision]",
		Doc: "The limit of every supervisor of the program. A supervisor that has restarted its children " +
			"`max_restarts` times within the window and would have to do so once more stops them and fails, and " +
			"its parent's strategy applies; at the root the program ends. A group that is restarted together " +
			"counts once.",
		Example: `[supervision]
max_restarts = 10
within_seconds = 30
`,
		Keys: []toml.Key[file]{
			setting.MaxRestarts("5", "restarts within the window; one more reaches the limit", of),
			setting.WindowSeconds("60", of),
		},
	}
}

func observabilityTable() toml.Table[file] {
	return toml.Table[file]{
		Header: "[observability]",
		Doc:    "How the program is observed.",
		Example: `[observability]
backend = "none"
`,
		Keys: []toml.Key[file]{
			{Name: "backend", Type: "ndjson, none", Default: "ndjson",
				Doc:  "the form of traces: a line of JSON for each event, or no traces at all",
				Also: []string{"format", "exporter"},
				Read: func(r *toml.Reader, v *toml.Value, into *file) {
					if v.Kind == toml.KindString && v.Text == "otlp" {
						r.Fail(v, `write "ndjson"`, `backend is "otlp", which is not supported yet, `+
							`expected one of ndjson, none`)
						return
					}
					toml.Name(func(f *file) *Trace { return &f.Trace })(r, v, into)
				}},
			unusedText[file]("otlp_endpoint", "otlp is not supported yet"),
			unusedText[file]("service_name", "only otlp has one, which is not supported yet"),
		},
	}
}

func testTable() toml.Table[file] {
	return toml.Table[file]{
		Header: "[test]",
		Doc:    "How the tests of the program are run.",
		Example: `[test]
timeout_ms = 2000
`,
		Keys: []toml.Key[file]{
			{Name: "timeout_ms", Type: "integer", Default: "10000",
				Doc:  "how long each test may take, in milliseconds",
				Also: []string{"timeout", "timeout_s", "timeout_seconds"},
				Read: func(r *toml.Reader, v *toml.Value, into *file) {
					if d, ok := r.Whole(v, time.Millisecond, "milliseconds"); ok {
						into.TestTimeout = d
					}
				}},
		},
	}
}

// sections returns all tables of grove.toml, in the order of its reference page.
func sections() []toml.Section {
	return []toml.Section{
		fileTable().Section(), projectTable().Section(), persistenceTable().Section(),
		supervisionTable().Section(), observabilityTable().Section(), divineTable().Section(), testTable().Section(),
	}
}

//go:embed head.md
var head string

// WriteSchema writes the JSON Schema of grove.toml.
func WriteSchema(w io.Writer) error {
	b := toml.SchemaBuilder{Sections: sections(), Special: ownSchema}
	return b.Write(w, FileName)
}

// ownSchema returns the schema of a value that only grove.toml has.
func ownSchema(_ *toml.SchemaBuilder, _ string, r toml.Row, _ bool) toml.Schema {
	if r.Type == setting.MaxType {
		return setting.LimitSchema(0)
	}
	return nil
}

// WriteReference writes the reference page of grove.toml, in Markdown.
func WriteReference(w io.Writer) error { return toml.WritePage(w, head, sections()) }
