package config

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writeDocument writes a document as one file, with the origin of each value in a comment.
func writeDocument(w io.Writer, document *value) error {
	var b strings.Builder
	writeTables(&b, document)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTables writes the tables and arrays of tables of a document.
func writeTables(b *strings.Builder, document *value) {
	loose := newTable(nil, "", 0, nil) // what belongs to no table
	var tables, elements []*value
	for _, f := range document.fields {
		switch {
		case f.kind == isTable:
			tables = append(tables, f)
		case f.isTables() && len(f.elements) > 0:
			elements = append(elements, f.elements...)
		default:
			loose.fields = append(loose.fields, f)
		}
	}
	writeTable(b, "", nil, loose)
	for _, t := range tables {
		writeTable(b, "["+tomlKey(t.name)+"]", t, t)
	}
	// The order of supervisors and agents together is that of their start.
	slices.SortStableFunc(elements, (*value).compare)
	for _, e := range elements {
		writeTable(b, "[["+tomlKey(e.parent.name)+"]]", e, e)
	}
}

// writeTable writes a table, a line for each value, with their origins one below the other.
func writeTable(b *strings.Builder, header string, at, v *value) {
	type line struct{ text, origin string }
	var lines []line
	if header != "" {
		n, _ := at.src.position(at.at)
		lines = append(lines, line{header, fmt.Sprintf("%s:%d", at.src.name, n)})
	}
	var below func(prefix string, v *value)
	below = func(prefix string, v *value) {
		for _, f := range v.fields {
			if f.kind == isTable && len(f.fields) > 0 {
				below(prefix+tomlKey(f.name)+".", f)
				continue
			}
			lines = append(lines, line{prefix + tomlKey(f.name) + " = " + inTOML(f), origins(f)})
		}
		for _, g := range v.gone {
			if v.byName[g.what.name] == nil {
				n, _ := g.by.src.position(g.by.at)
				lines = append(lines, line{"# " + prefix + tomlKey(g.what.name),
					fmt.Sprintf("removed by %s:%d, was %s in %s", g.by.src.name, n, inTOML(g.what), origins(g.what))})
			}
		}
	}
	below("", v)
	if len(lines) == 0 {
		return
	}
	width := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l.text); n <= 60 {
			width = max(width, n)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	for _, l := range lines {
		fmt.Fprintf(b, "%-*s  # %s\n", width, printable(l.text), printable(l.origin))
	}
}

// origins says in a comment where a value is stated, and what it replaced.
func origins(v *value) string {
	at := func(v *value) string {
		line, _ := v.src.position(v.key)
		return fmt.Sprintf("%s:%d", v.src.name, line)
	}
	text := at(v)
	for _, e := range v.elements { // a list that was appended to
		if place := at(e); e.src != v.src && !strings.Contains(text, place) {
			text += ", " + place
		}
	}
	if v.over != nil {
		text += fmt.Sprintf("; was %s in %s", inTOML(v.over), at(v.over))
	}
	return text
}

func tomlKey(name string) string {
	if bare := bareKey(name); bare == name {
		return name
	}
	return quoteTOML(name)
}

// quoteTOML is a string of one line.
func quoteTOML(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !strconv.IsPrint(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// inTOML is a value as a file states it.
func inTOML(v *value) string {
	switch v.kind {
	case isString:
		return quoteTOML(v.text)
	case isArray:
		all := make([]string, len(v.elements))
		for i, e := range v.elements {
			all[i] = inTOML(e)
		}
		return "[" + strings.Join(all, ", ") + "]"
	case isTable:
		all := make([]string, len(v.fields))
		for i, f := range v.fields {
			all[i] = tomlKey(f.name) + " = " + inTOML(f)
		}
		if len(all) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(all, ", ") + " }"
	}
	return v.text
}

// plain is a value as encoding/json takes it.
func plain(v *value) any {
	switch v.kind {
	case isTable:
		m := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			m[f.name] = plain(f)
		}
		return m
	case isArray:
		all := make([]any, len(v.elements))
		for i, e := range v.elements {
			all[i] = plain(e)
		}
		return all
	case isBool:
		return v.text == "true"
	case isInteger:
		if n, err := strconv.ParseInt(v.text, 0, 64); err == nil {
			return n
		}
	case isFloat:
		if n, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64); err == nil && !math.IsInf(n, 0) &&
			!math.IsNaN(n) {
			return n
		}
	}
	return v.text
}
