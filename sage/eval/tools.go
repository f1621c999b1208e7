package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/llm"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/tools"
	"github.com/coppice-dev/coppice/sage/types"
)

// toolset holds the tools of an instance. The files and the database are opened at their first
// use.
type toolset struct {
	settings tools.Settings
	http     *tools.HTTP
	files    lazy[*tools.Files]
	database lazy[*tools.Database]
}

func newToolset(s tools.Settings) *toolset {
	return &toolset{settings: s, http: tools.NewHTTP(s.HTTPTimeout)}
}

func (t *toolset) close() error {
	return errors.Join(t.http.Close(), t.files.close(), t.database.close())
}

// lazy holds a value that is opened at its first use. If opening fails, the next use tries again.
type lazy[T io.Closer] struct {
	mu     sync.Mutex
	opened bool
	value  T
}

func (l *lazy[T]) get(open func() (T, error)) (v T, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		if v, err = open(); err != nil {
			return v, err
		}
		l.value, l.opened = v, true
	}
	return l.value, nil
}

func (l *lazy[T]) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		return nil
	}
	l.opened = false
	return l.value.Close()
}

func (m *machine) files() *tools.Files {
	t := m.in.tools
	files, err := t.files.get(func() (*tools.Files, error) { return tools.OpenFiles(t.settings.Root) })
	if err != nil {
		m.throwError(Tool, err)
	}
	return files
}

func (m *machine) database() *tools.Database {
	t := m.in.tools
	if t.settings.Database == "" {
		m.throw(Tool, "no database is configured: set %s", tools.EnvDatabase)
	}
	database, err := t.database.get(func() (*tools.Database, error) {
		// The database outlives the agent that uses it first.
		return tools.OpenDatabase(context.WithoutCancel(m.ctx), t.settings.Database, t.settings.Dir)
	})
	if err != nil {
		m.throwError(Tool, err)
	}
	return database
}

// The records of tools, in the order of their fields.
var (
	responseKind = &recordKind{name: "HttpResponse", fields: []string{"status", "body", "headers"}}
	shellKind    = &recordKind{name: "ShellResult", fields: []string{"exit_code", "stdout", "stderr"}}
	rowKind      = &recordKind{name: "DbRow", fields: []string{"columns", "values"}}
)

// fileFunctions returns the file operations, which are both a tool and part of the library.
func fileFunctions() map[string]native {
	do := func(act func(m *machine, f *tools.Files, a []Value) (Value, error)) native {
		return func(m *machine, a []Value) Value {
			m.checkStop()
			v, err := act(m, m.files(), a)
			if err != nil {
				m.throwError(Tool, err)
			}
			return v
		}
	}
	return map[string]native{
		"read": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			s, err := f.Read(m.ctx, a[0].text())
			return m.newText(s), err
		}),
		"write": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			name := a[0].text()
			if i := strings.LastIndexByte(name, '/'); i > 0 {
				if err := f.Mkdir(m.ctx, name[:i]); err != nil {
					return unit, err
				}
			}
			return unit, f.Write(m.ctx, name, a[1].text())
		}),
		"append": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			return unit, f.Append(m.ctx, a[0].text(), a[1].text())
		}),
		"exists": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			is, err := f.Exists(m.ctx, a[0].text())
			return boolValue(is), err
		}),
		"list": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			names, err := f.List(m.ctx, a[0].text())
			return m.textList(names), err
		}),
		"delete": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			return unit, f.Delete(m.ctx, a[0].text())
		}),
		"mkdir": do(func(m *machine, f *tools.Files, a []Value) (Value, error) {
			return unit, f.Mkdir(m.ctx, a[0].text())
		}),
	}
}

func fileNatives() map[string]native {
	of := fileFunctions()
	return map[string]native{
		"read_file": of["read"], "write_file": of["write"], "append_file": of["append"], "file_exists": of["exists"],
		"delete_file": of["delete"], "list_dir": of["list"], "make_dir": of["mkdir"],
	}
}

// toolFunctions returns the functions of all tools, as Tool.name.
var toolFunctions = sync.OnceValue(func() map[string]native {
	all := map[string]native{}
	for name, f := range fileFunctions() {
		all["Fs."+name] = f
	}
	for name, hasBody := range map[string]bool{"get": false, "delete": false, "post": true, "put": true} {
		all["Http."+name] = func(m *machine, a []Value) Value {
			m.checkStop()
			url, body, rest := a[0].text(), "", a[1:]
			if hasBody {
				body, rest = rest[0].text(), rest[1:]
			}
			headers := map[string]string{}
			if len(rest) > 0 {
				for k, v := range rest[0].ref.(*mapping).all() {
					headers[k.text()] = v.text()
				}
			}
			r, err := m.in.tools.http.Do(m.waiting(), strings.ToUpper(name), url, body, headers)
			if err != nil {
				m.throwError(Network, err)
			}
			return m.response(r)
		}
	}
	all["Shell.run"] = func(m *machine, a []Value) Value {
		m.checkStop()
		settings := m.in.tools.settings
		shell := tools.Shell{Host: settings.Commands, Dir: settings.Dir}
		var r tools.ShellResult
		var err error
		if line, is := a[0].ref.(string); is {
			r, err = shell.RunLine(m.waiting(), line)
		} else {
			argv := make([]string, a[0].n)
			for i, e := range a[0].elems() {
				argv[i] = e.text()
			}
			r, err = shell.Run(m.waiting(), argv)
		}
		if err != nil {
			m.throwError(Tool, err)
		}
		m.charge(len(r.Stdout) + len(r.Stderr))
		return Value{ref: &record{kind: shellKind,
			fields: []Value{intValue(int64(r.ExitCode)), textValue(r.Stdout), textValue(r.Stderr)}}}
	}
	all["Database.query"] = func(m *machine, a []Value) Value {
		m.checkStop()
		rows, err := m.database().Query(m.waiting(), a[0].text(), sqlArgs(a)...)
		if err != nil {
			m.throwError(Tool, err)
		}
		list := make([]Value, len(rows))
		for i, r := range rows {
			values := make([]string, len(r.Values))
			for k, v := range r.Values {
				values[k] = sqlText(v)
				m.charge(len(values[k]))
			}
			list[i] = Value{ref: &record{kind: rowKind, fields: []Value{m.textList(r.Columns), m.textList(values)}}}
		}
		return m.list(list)
	}
	all["Database.execute"] = func(m *machine, a []Value) Value {
		m.checkStop()
		n, err := m.database().Execute(m.waiting(), a[0].text(), sqlArgs(a)...)
		if err != nil {
			m.throwError(Tool, err)
		}
		return intValue(n)
	}
	return all
})

func (m *machine) response(r tools.Response) Value {
	headers := m.newMapping()
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		headers.set(m, textValue(name), textValue(r.Headers[name]))
	}
	return Value{ref: &record{kind: responseKind,
		fields: []Value{intValue(int64(r.Status)), m.newText(r.Body), {ref: headers}}}}
}

// sqlArgs returns the values for the ? placeholders of a statement. Values that SQL has no type
// for are passed as JSON.
func sqlArgs(a []Value) []any {
	if len(a) < 2 {
		return nil
	}
	args := make([]any, a[1].n)
	for i, e := range a[1].elems() {
		args[i] = sqlArg(e)
	}
	return args
}

func sqlArg(v Value) any {
	switch x := v.ref.(type) {
	case string:
		return x
	case scalar:
		switch x {
		case intKind:
			return v.n
		case floatKind:
			return v.float()
		case boolKind:
			return v.bool()
		}
		return nil
	case *variant:
		if x.kind == noneKind {
			return nil
		}
		if x.kind == someKind {
			return sqlArg(x.elems[0])
		}
	}
	return string(encode(v))
}

func sqlText(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case []byte:
		return strings.ToValidUTF8(string(x), "\uFFFD")
	}
	return fmt.Sprint(v)
}

// tool returns the native of a function of a tool. Tests can mock it.
func (p *Program) tool(o *check.Object) native {
	name := o.Name
	if o.Tool != nil {
		name = o.Tool.Name + "." + name
	} else if o.Parent != nil {
		name = o.Parent.Name + "." + name
	}
	run := toolFunctions()[name]
	return func(m *machine, a []Value) Value {
		if mocks := m.in.mocks; mocks != nil {
			if v, err, mocked := mocks.answer(name); mocked {
				if err != nil {
					m.raise(&Error{Kind: err.Kind, Message: err.Message})
				}
				return v
			}
			m.throw(Tool, "%s is not mocked in this test: say mock tool %s -> value;", name, name)
		}
		if run == nil {
			m.throw(Tool, "%s has no implementation: a tool that a program declares can only be mocked", name)
		}
		return run(m, a)
	}
}

func (m *compiler) callTool(x *syntax.CallExpr, o *check.Object) code {
	return m.callNative(m.typeOf(x).Kind, m.keepAll(x.Args), m.p.tool(o), spanOf(x))
}

// divine compiles a question to a model. If the type of the answer is not String, the answer is
// JSON that fits the schema of the type.
func (m *compiler) divine(x *syntax.DivineExpr) code {
	c, at := m.expr(x.Prompt), spanOf(x)
	prompt, t := c.v, m.typeOf(x)
	var s *shape
	var schema json.RawMessage
	if t.Kind != types.String {
		s = m.p.shape(t)
		schema = s.schema()
	}
	return valueCode(t.Kind, func(f *frame) Value {
		question := llm.Question{Prompt: show(prompt(f)), Schema: schema}
		f.m.here = at
		return f.m.divine(question, s)
	}).withCalls(true)
}

func (m *machine) divine(q llm.Question, s *shape) Value {
	m.checkStop()
	in := m.in
	oracle := in.o.Oracle
	if in.mocks != nil {
		oracle = &in.mocks.script
	}
	if oracle == nil {
		m.throwError(Llm, fmt.Errorf("%w: set %s, or %s for a server of your own, or name a command "+
			"in [divine] of grove.toml", llm.ErrNotConfigured, llm.EnvKey, llm.EnvURL))
	}
	in.traceIf(m.path(), "divine.start")
	answer, err := oracle.Ask(m.waiting(), q)
	in.traceIf(m.path(), "divine.end")
	if err != nil {
		m.throwError(Llm, err)
	}
	if s == nil {
		return m.newText(answer)
	}
	m.charge(4 * len(answer))
	v, err := s.decode([]byte(answer))
	if err != nil {
		m.throwError(Llm, fmt.Errorf("%w: %w", llm.ErrShape, err))
	}
	return v
}
