package config

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

const beliefTypes = "any, bool, int, float, string, list, map"

// beliefTable is one belief that is written as a table.
func beliefTable() table[spec.Belief] {
	return table[spec.Belief]{
		header: "[agent.beliefs]",
		doc: "What an agent keeps: named values that it reads and sets with `coppice agent belief`. Each key is " +
			"the name of a belief, with a plain value, which is then the initial one and fixes the type, or with a " +
			"table of the keys below. " +
			"An agent that declares beliefs can set no others; one that declares none may keep what it likes, and " +
			"all of that persists. A change of these holds from the next incarnation on. See [Beliefs](beliefs.md).",
		example: `[[agent]]
name = "query-monitor"
command = "./monitor.sh"

[agent.beliefs]
threshold = 100
check_count = { type = "int", persistent = true }
migrations = { type = "list", initial = ["0001"], persistent = true }
`,
		keys: []key[spec.Belief]{
			{row{name: "type", typ: beliefTypes, def: "that of `initial`",
				doc: "what it takes; anything else is refused. `any` takes null as well", also: []string{"kind"}},
				word(jsonvalue.ParseType, func(b *spec.Belief) *jsonvalue.Type { return &b.Type })},
			{row{name: "initial", typ: "value", def: "false, 0, \"\", [], {} or null, by `type`",
				doc: "what it is before it has been set", also: []string{"default", "value", "init"}},
				func(r *reader, v *value, into *spec.Belief) {
					if initial, ok := r.json(v); ok {
						into.Initial = initial
					}
				}},
			{row{name: "persistent", typ: "boolean", def: "false", doc: "it outlives restarts of the agent, of the " +
				"daemon and of the machine. Otherwise each incarnation begins with `initial`",
				also: []string{"persist", "durable"}},
				flag(func(b *spec.Belief) *bool { return &b.Persistent })},
		},
	}
}

// beliefs reads the table of an agent's beliefs.
func (r *reader) beliefs(v *value, into *agent) {
	if !r.want(v, isTable, "a table of beliefs") {
		return
	}
	for _, f := range v.fields {
		b := spec.Belief{Name: f.name}
		if f.kind != isTable {
			if initial, ok := r.json(f); ok {
				b.Initial, b.Type = initial, jsonvalue.Of(initial)
			}
			into.Beliefs = append(into.Beliefs, b)
			continue
		}
		before := len(r.errs)
		beliefTable().read(r, f, &b)
		switch {
		case len(r.errs) > before:
		case f.byName["type"] == nil && b.Initial == "":
			r.fail(f.at, f, `write type = "any" if it may be anything`,
				"the belief %s has neither type nor initial, expected at least one", bareKey(f.name))
		case f.byName["type"] == nil:
			b.Type = jsonvalue.Of(b.Initial)
		}
		into.Beliefs = append(into.Beliefs, b)
	}
}

// json makes JSON of a value.
func (r *reader) json(v *value) (jsonvalue.Value, bool) {
	var b strings.Builder
	if !r.appendJSON(&b, v) {
		return "", false
	}
	got, err := jsonvalue.Parse([]byte(b.String()))
	if err != nil {
		r.fail(v.at, v, "", "%s cannot be kept: %v", r.label(v), err)
		return "", false
	}
	return got, true
}

func (r *reader) appendJSON(b *strings.Builder, v *value) (ok bool) {
	switch v.kind {
	case isTable:
		ok = true
		for i, f := range v.fields {
			b.WriteString([]string{"{", ","}[min(i, 1)])
			name, _ := json.Marshal(f.name)
			b.Write(append(name, ':'))
			ok = r.appendJSON(b, f) && ok
		}
		if len(v.fields) == 0 {
			b.WriteByte('{')
		}
		b.WriteByte('}')
		return ok
	case isArray:
		ok = true
		b.WriteByte('[')
		for i, e := range v.elements {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = r.appendJSON(b, e) && ok
		}
		b.WriteByte(']')
		return ok
	case isString:
		text, err := jsonvalue.Text(v.text)
		if err != nil {
			r.fail(v.at, v, "", "%s cannot be kept: %v", r.label(v), err)
			return false
		}
		b.WriteString(string(text))
	case isInteger:
		n, err := strconv.ParseInt(strings.TrimPrefix(v.text, "+"), 0, 64)
		if err != nil {
			r.fail(v.at, v, "", "%s is %s, expected an integer of 64 bits", r.label(v), v.text)
			return false
		}
		b.WriteString(strconv.FormatInt(n, 10))
	case isFloat:
		text := strings.ReplaceAll(strings.TrimPrefix(v.text, "+"), "_", "")
		if strings.ContainsAny(text, "in") { // inf, nan
			r.fail(v.at, v, "", "%s is %s, which JSON has not, expected a number", r.label(v), v.text)
			return false
		}
		b.WriteString(text)
	case isBool:
		b.WriteString(v.text)
	default:
		r.fail(v.at, v, "write it as a string", "%s is %v, which JSON has not", r.label(v), v.kind)
		return false
	}
	return true
}

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
