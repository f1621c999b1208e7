package config

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// GroveName is what FindGrove looks for: the settings of a Sage project.
const GroveName = "grove.toml"

// sageName is what Sage called them before.
const sageName = "sage.toml"

// Grove is what a grove.toml says, with the defaults for what it does not say.
type Grove struct {
	// Name is that of the project; a valid segment of paths.
	Name string
	// Version is any text.
	Version string
	// Entry is the path of the program: absolute, but for a relative name given
	// to ParseGrove.
	Entry Setting[string]
	// Persistence is where persistent beliefs are kept; its path is as Entry's.
	Persistence Persistence
	// Limit is that of each supervisor of the program.
	Limit supervisor.Limit
	// Trace is how the program is observed.
	Trace Trace
	// Divine is the command that answers divine, if the project has one.
	Divine Divine
	// TestTimeout is how long each test may take.
	TestTimeout time.Duration
	// Notices are what the file says in vain, in its order.
	Notices []*Notice
}

// Trace is how the events of a program are written down.
type Trace uint8

const (
	NDJSON  Trace = iota // a line of JSON each
	NoTrace              // not at all
)

var traceNames = [...]string{NDJSON: "ndjson", NoTrace: "none"}

func (t Trace) String() string {
	if int(t) < len(traceNames) {
		return traceNames[t]
	}
	return "invalid(" + strconv.Itoa(int(t)) + ")"
}

// ParseTrace is the inverse of String.
func ParseTrace(text string) (Trace, error) {
	for t, name := range traceNames {
		if name == text {
			return Trace(t), nil
		}
	}
	return 0, fmt.Errorf("unknown trace %q", text)
}

// LoadGrove reads the grove.toml, or sage.toml, at path. Paths in it are
// relative to its directory. An error about the file is Errors; one that the
// file does not exist wraps fs.ErrNotExist.
func LoadGrove(path string) (*Grove, error) {
	data, dir, err := read(path, grove)
	if err != nil {
		return nil, err
	}
	return loadGrove(path, dir, data)
}

// ParseGrove reads data, the content of the file called name, without touching
// the file system. Paths in it are relative to the directory of name. The
// error is Errors.
func ParseGrove(name string, data []byte) (*Grove, error) {
	return loadGrove(name, filepath.Dir(name), data)
}

// FindGrove returns the path of the grove.toml in dir or the nearest directory
// above it, or of a sage.toml where there is no grove.toml in the same one.
// The error wraps fs.ErrNotExist if there is none.
func FindGrove(dir string) (string, error) { return nearest(dir, GroveName, sageName) }

// IsGrove reports whether a path is that of a grove.toml, or sage.toml.
func IsGrove(path string) bool {
	name := filepath.Base(path)
	return name == GroveName || name == sageName
}

// grove is the advice for a grove.toml.
var grove = advice{missing: "`coppice sage new` writes one", large: "remove what is no setting", page: "docs/grove.md"}

// groveFile is a grove.toml while it is read.
type groveFile struct {
	Grove
	limit limit
}

const (
	defaultEntry = "src/main.sg"
	defaultPath  = ".sage/checkpoints.db"
)

func loadGrove(name, dir string, data []byte) (*Grove, error) {
	r, document, err := open(name, data, grove, groveSections())
	if err != nil {
		return nil, err
	}
	f := groveFile{Grove: Grove{
		Version:     "0.1.0",
		Entry:       Setting[string]{defaultEntry, Place{File: name, Key: "project.entry"}},
		Persistence: Persistence{Path: Setting[string]{defaultPath, Place{File: name, Key: "persistence.path"}}},
		TestTimeout: 10 * time.Second,
	}}
	groveTable().read(r, document, &f)
	if f.Persistence.Backend == spec.Memory && f.Persistence.Path.Line > 0 {
		r.notice(document.find("persistence", "path"), "path is not used: the backend is memory")
	}
	if filepath.Base(name) == sageName {
		n := Notice(*r.src.errorAt(0, "", "rename it", sageName+" is the former name of "+GroveName))
		r.notices = append(r.notices, &n)
	}
	if len(r.errs) > 0 {
		return nil, r.errors()
	}
	r.sortNotices()
	f.Notices = r.notices
	f.Limit = f.limit.over(supervisor.ScopeSupervisor, supervisor.Escalate)
	f.Entry.Value = under(dir, f.Entry.Value)
	f.Persistence.Path.Value = under(dir, f.Persistence.Path.Value)
	return &f.Grove, nil
}

func groveTable() table[groveFile] {
	itself := func(f *groveFile) *groveFile { return f }
	return table[groveFile]{
		doc: "The whole file.",
		keys: []key[groveFile]{
			{row{name: "project", typ: "table", def: required, doc: "the project itself",
				also: []string{"package", "workspace"}}, sub(groveProjectTable(), itself)},
			{row{name: "persistence", typ: "table", doc: "where persistent beliefs are kept",
				also: []string{"checkpoint", "checkpoints", "storage"}},
				sub(grovePersistenceTable(), func(f *groveFile) *Persistence { return &f.Persistence })},
			{row{name: "supervision", typ: "table", doc: "how often supervisors restart",
				also: []string{"supervisor"}}, sub(groveSupervisionTable(), itself)},
			{row{name: "observability", typ: "table", doc: "how the program is observed",
				also: []string{"trace", "tracing"}}, sub(observabilityTable(), itself)},
			{row{name: "divine", typ: "table", doc: "the command of an agent that answers `divine`",
				also: []string{"oracle", "infer", "llm", "model"}},
				sub(divineTable(), func(f *groveFile) *Divine { return &f.Divine })},
			{row{name: "test", typ: "table", doc: "how its tests are run", also: []string{"tests", "testing"}},
				sub(testTable(), itself)},
			unused("dependencies", "a program is made of the modules of its project"),
			{row{name: "tools", typ: "table", doc: "not used, but accepted"},
				func(r *reader, v *value, _ *groveFile) {
					if !r.want(v, isTable, "a table") {
						return
					}
					for _, tool := range v.fields {
						if r.want(tool, isTable, "a table") {
							r.notice(tool, "tools.%s is not used", bareKey(tool.name))
						}
					}
				}},
			unused("extern", "there are no functions of other languages"),
		},
	}
}

// unused is a table that is accepted, because programs written for others have
// it, and that changes nothing.
func unused(name, because string) key[groveFile] {
	return key[groveFile]{row{name: name, typ: "table", doc: "not used, but accepted: " + because},
		func(r *reader, v *value, _ *groveFile) {
			if r.want(v, isTable, "a table") {
				r.notice(v, "%s is not used: %s", name, because)
			}
		}}
}

// unusedText is unused for a key whose value is a string.
func unusedText[T any](name, because string) key[T] {
	return key[T]{row{name: name, typ: "string", doc: "not used, but accepted: " + because},
		func(r *reader, v *value, _ *T) {
			if _, ok := r.text(v, "a string"); ok {
				r.notice(v, "%s is not used: %s", name, because)
			}
		}}
}

func groveProjectTable() table[groveFile] {
	return table[groveFile]{
		header: "[project]",
		doc:    "The project as a whole.",
		example: `[project]
name = "shop"
version = "1.2.0"
entry = "src/main.sg"
`,
		keys: []key[groveFile]{
			{row{name: "name", typ: "string", def: required,
				doc: "what the project is called; 1 to 64 bytes of printable text without `/`"},
				func(r *reader, v *value, into *groveFile) {
					name, ok := r.text(v, "a string")
					if !ok {
						return
					}
					if fault := spec.CheckName(name); fault != "" {
						r.fail(v.at, v, "", "%s", fault)
						return
					}
					into.Name = name
				}},
			{row{name: "version", typ: "string", def: "0.1.0", doc: "the version of the project; any text"},
				text(func(f *groveFile) *string { return &f.Version })},
			{row{name: "entry", typ: "string", def: defaultEntry,
				doc:  "the file with the `run` of the program, relative to the directory of this file",
				also: []string{"main", "src", "source"}},
				pathKey(func(f *groveFile) *Setting[string] { return &f.Entry })},
		},
	}
}

func grovePersistenceTable() table[Persistence] {
	t := beliefsTable(defaultPath)
	t.keys = append(t.keys, unusedText[Persistence]("url", "no backend is reached over the network"))
	return t
}

func groveSupervisionTable() table[groveFile] {
	of := func(f *groveFile) *limit { return &f.limit }
	return table[groveFile]{
		header: "[supervision]",
		doc: "The limit of every supervisor of the program. One that has restarted its children `max_restarts` " +
			"times within the window and would have to do so once more stops them and fails, and its parent's " +
			"strategy applies; at the root the program ends. A group that is restarted together counts once.",
		example: `[supervision]
max_restarts = 10
within_seconds = 30
`,
		keys: []key[groveFile]{
			maxRestarts("5", "restarts within the window; one more reaches the limit", of),
			windowSeconds("60", of),
		},
	}
}

func observabilityTable() table[groveFile] {
	return table[groveFile]{
		header: "[observability]",
		doc:    "How the program is observed.",
		example: `[observability]
backend = "none"
`,
		keys: []key[groveFile]{
			{row{name: "backend", typ: "ndjson, none", def: "ndjson",
				doc:  "the form of traces: a line of JSON for each event, or no traces at all",
				also: []string{"format", "exporter"}},
				func(r *reader, v *value, into *groveFile) {
					if v.kind == isString && v.text == "otlp" {
						r.fail(v.at, v, `write "ndjson"`, `backend is "otlp", which is not supported yet, `+
							`expected one of ndjson, none`)
						return
					}
					word(ParseTrace, func(f *groveFile) *Trace { return &f.Trace })(r, v, into)
				}},
			unusedText[groveFile]("otlp_endpoint", "otlp is not supported yet"),
			unusedText[groveFile]("service_name", "only otlp has one, which is not supported yet"),
		},
	}
}

func testTable() table[groveFile] {
	return table[groveFile]{
		header: "[test]",
		doc:    "How the tests of the program are run.",
		example: `[test]
timeout_ms = 2000
`,
		keys: []key[groveFile]{
			{row{name: "timeout_ms", typ: "integer", def: "10000",
				doc:  "how long each test may take, in milliseconds",
				also: []string{"timeout", "timeout_s", "timeout_seconds"}},
				func(r *reader, v *value, into *groveFile) {
					if d, ok := r.whole(v, time.Millisecond, "milliseconds"); ok {
						into.TestTimeout = d
					}
				}},
		},
	}
}

// groveSections are all tables of grove.toml, in the order of its reference page.
func groveSections() []section {
	return []section{
		groveTable().section(), groveProjectTable().section(), grovePersistenceTable().section(),
		groveSupervisionTable().section(),
		observabilityTable().section(), divineTable().section(), testTable().section(),
	}
}

const groveHead = `# grove.toml

<!-- Written by go generate from internal/config; changes belong there. -->

The settings of a Sage project, in [TOML](https://toml.io), in its topmost directory. ` + "`coppice sage new`" + ` writes a first one. It is UTF-8 and at most
1 MiB large. Where there is none, a ` + "`sage.toml`" + ` in the same directory is read instead.

Paths are relative to the directory of the file, wherever a command is run.

Each error is one line with its place, what was expected and what to do, and all are reported at once:

` + "```" + `
grove.toml:5:11: backend is "sqlit", expected one of sqlite, memory; did you mean "sqlite"?
grove.toml:9:1: unknown key "restart_window_s" in [supervision]; did you mean "within_seconds"?
` + "```" + `

What is accepted and changes nothing is named with its place, too, as a notice; it stops nothing.
`

// WriteGroveSchema writes the JSON Schema of grove.toml.
func WriteGroveSchema(w io.Writer) error {
	b := schemaBuilder{sections: groveSections(), special: groveSchema}
	return b.write(w, GroveName)
}

// groveSchema is the schema of a value that only grove.toml has.
func groveSchema(_ *schemaBuilder, _ string, r row, _ bool) schema {
	if r.typ == maxType {
		return limitSchema(0)
	}
	return nil
}

// WriteGroveReference writes the reference page of grove.toml, in Markdown.
func WriteGroveReference(w io.Writer) error { return writePage(w, groveHead, groveSections()) }
