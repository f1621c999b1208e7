package toml

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Write writes a document as one file, with the origin of each value in a comment.
func Write(w io.Writer, document *Value) error {
	var b strings.Builder
	writeTables(&b, document)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTables writes the tables and arrays of tables of a document.
func writeTables(b *strings.Builder, document *Value) {
	loose := NewTable(nil, "", 0, nil) // values outside tables
	var tables, elements []*Value
	for _, f := range document.Fields {
		switch {
		case f.Kind == KindTable:
			tables = append(tables, f)
		case f.IsTables() && len(f.Elements) > 0:
			elements = append(elements, f.Elements...)
		default:
			loose.Fields = append(loose.Fields, f)
		}
	}
	writeTable(b, "", loose)
	for _, t := range tables {
		writeTable(b, "["+tomlKey(t.Name)+"]", t)
	}
	// Supervisors and agents share one order, that of their start.
	slices.SortStableFunc(elements, (*Value).Compare)
	for _, e := range elements {
		writeTable(b, "[["+tomlKey(e.Parent.Name)+"]]", e)
	}
}

// writeTable writes a table, one line per value, with aligned origins.
func writeTable(b *strings.Builder, header string, v *Value) {
	type line struct{ text, origin string }
	var lines []line
	if header != "" {
		lines = append(lines, line{header, fmt.Sprintf("%s:%d", v.Source.Name, v.Line())})
	}
	var below func(prefix string, v *Value)
	below = func(prefix string, v *Value) {
		for _, f := range v.Fields {
			if f.Kind == KindTable && len(f.Fields) > 0 {
				below(prefix+tomlKey(f.Name)+".", f)
				continue
			}
			lines = append(lines, line{prefix + tomlKey(f.Name) + " = " + Format(f), origins(f)})
		}
		for _, g := range v.Gone {
			if v.Field(g.what.Name) == nil {
				n, _ := g.by.Source.position(g.by.At)
				lines = append(lines, line{"# " + prefix + tomlKey(g.what.Name), fmt.Sprintf(
					"removed by %s:%d, was %s in %s", g.by.Source.Name, n, Format(g.what), origins(g.what))})
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

// origins returns the text of a comment: the place of a value, and the value that it replaced.
func origins(v *Value) string {
	at := func(v *Value) string {
		line, _ := v.Source.position(v.Key)
		return fmt.Sprintf("%s:%d", v.Source.Name, line)
	}
	text := at(v)
	for _, e := range v.Elements { // a list that was appended to
		if place := at(e); e.Source != v.Source && !strings.Contains(text, place) {
			text += ", " + place
		}
	}
	if v.Over != nil {
		text += fmt.Sprintf("; was %s in %s", Format(v.Over), at(v.Over))
	}
	return text
}

func tomlKey(name string) string {
	if bare := BareKey(name); bare == name {
		return name
	}
	return Quote(name)
}

// Quote returns text as a TOML basic string on one line.
func Quote(text string) string {
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

// Format returns a value in the syntax of TOML.
func Format(v *Value) string {
	switch v.Kind {
	case KindString:
		return Quote(v.Text)
	case KindArray:
		all := make([]string, len(v.Elements))
		for i, e := range v.Elements {
			all[i] = Format(e)
		}
		return "[" + strings.Join(all, ", ") + "]"
	case KindTable:
		all := make([]string, len(v.Fields))
		for i, f := range v.Fields {
			all[i] = tomlKey(f.Name) + " = " + Format(f)
		}
		if len(all) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(all, ", ") + " }"
	}
	return v.Text
}

// jsonValue converts a value for encoding/json.
func jsonValue(v *Value) any {
	switch v.Kind {
	case KindTable:
		m := make(map[string]any, len(v.Fields))
		for _, f := range v.Fields {
			m[f.Name] = jsonValue(f)
		}
		return m
	case KindArray:
		all := make([]any, len(v.Elements))
		for i, e := range v.Elements {
			all[i] = jsonValue(e)
		}
		return all
	case KindBool:
		return v.Text == "true"
	case KindInteger:
		if n, err := strconv.ParseInt(v.Text, 0, 64); err == nil {
			return n
		}
	case KindFloat:
		if n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64); err == nil && !math.IsInf(n, 0) &&
			!math.IsNaN(n) {
			return n
		}
	}
	return v.Text
}
