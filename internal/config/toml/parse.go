package toml

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Parse reads a TOML document.
func Parse(src *Source) (*Value, *Error) {
	if err := src.CheckText(); err != nil {
		return nil, err
	}
	p := parser{src: src}
	root := p.document()
	if p.excess != nil {
		return nil, src.ErrorAt(p.excess.Key, p.excess.path(), "",
			fmt.Sprintf("a table of more than %d keys, expected at most that", maxKeys))
	}
	// The library checks what the tree does not: duplicate keys, values used as tables and
	// numbers out of range.
	var document map[string]any
	err := toml.Unmarshal(src.Data, &document)
	if err == nil {
		err = p.Error()
	}
	switch {
	case err == nil:
		return root, nil
	case p.repeated != nil:
		first := p.repeated.Parent.byName[p.repeated.Name]
		line, _ := src.position(first.Key)
		return nil, src.ErrorAt(p.repeated.Key, p.repeated.path(), "remove one of the two",
			fmt.Sprintf("the key %s is there twice, first in line %d, expected once", BareKey(first.Name), line))
	}
	return nil, syntaxError(src, err)
}

type parser struct {
	unstable.Parser
	src      *Source
	repeated *Value // the first duplicate key
	excess   *Value // the first key beyond the limit of its table
}

// maxKeys limits the keys of a table. The library compares each key of a table with all
// others, which would take minutes in the largest files.
const maxKeys = 1000

// document builds the tree up to the first syntax error.
func (p *parser) document() *Value {
	root := NewTable(p.src, "", 0, nil)
	current := root
	p.Reset(p.src.Data)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			current = root
			for k := e.Key(); k.Next(); {
				current = p.table(current, k)
			}
		case unstable.ArrayTable:
			current = root
			k := e.Key()
			for k.Next() && !k.IsLast() {
				current = p.table(current, k)
			}
			name, at := keyOf(k)
			array := current.byName[name]
			if array == nil {
				array = p.add(current,
					&Value{Kind: KindArray, Source: p.src, At: at, Key: at, Name: name, Parent: current})
			}
			current = array.Append(NewTable(p.src, "", at, array))
		case unstable.KeyValue:
			p.keyValue(e, current)
		}
	}
	return root
}

// table returns the table at key k of v, which it adds if it is missing. In an array of
// tables it is the last element.
func (p *parser) table(v *Value, k unstable.Iterator) *Value {
	name, at := keyOf(k)
	t := v.byName[name]
	if t == nil {
		return p.add(v, NewTable(p.src, name, at, v))
	}
	if t.Kind == KindArray && len(t.Elements) > 0 {
		t = t.Elements[len(t.Elements)-1]
	}
	if t.Kind != KindTable {
		return NewTable(p.src, name, at, v) // not TOML; the library reports it
	}
	return t
}

func (p *parser) add(table, field *Value) *Value {
	table.Fields = append(table.Fields, field)
	table.byName[field.Name] = field
	if len(table.Fields) > maxKeys && p.excess == nil {
		p.excess = field
	}
	return field
}

func keyOf(k unstable.Iterator) (name string, at int) {
	return string(k.Node().Data), int(k.Node().Raw.Offset)
}

func (p *parser) keyValue(n *unstable.Node, into *Value) {
	k := n.Key()
	for k.Next() && !k.IsLast() {
		into = p.table(into, k)
	}
	name, key := keyOf(k)
	// Arrays have no position in the syntax tree; they start after the "=".
	at := key + int(k.Node().Raw.Length)
	for at < len(p.src.Data) && strings.IndexByte(" \t=", p.src.Data[at]) >= 0 {
		at++
	}
	v := p.value(n.Value(), at, into)
	v.Name, v.Key = name, key
	if into.byName[name] == nil {
		p.add(into, v)
	} else if p.repeated == nil {
		p.repeated = v
	}
}

func (p *parser) value(n *unstable.Node, at int, parent *Value) *Value {
	if n.Raw.Length > 0 {
		at = int(n.Raw.Offset)
	}
	switch n.Kind {
	case unstable.Array:
		v := &Value{Kind: KindArray, Source: p.src, At: at, Key: at, Parent: parent}
		for it := n.Children(); it.Next(); {
			v.Append(p.value(it.Node(), at, v))
		}
		return v
	case unstable.InlineTable:
		v := NewTable(p.src, "", at, parent)
		for it := n.Children(); it.Next(); {
			p.keyValue(it.Node(), v)
		}
		return v
	}
	k := KindTime
	switch n.Kind {
	case unstable.String:
		k = KindString
	case unstable.Integer:
		k = KindInteger
	case unstable.Float:
		k = KindFloat
	case unstable.Bool:
		k = KindBool
	}
	return &Value{Kind: k, Source: p.src, At: at, Key: at, Parent: parent, Text: string(n.Data)}
}

// likeYAML matches files whose first line, except comments, looks like YAML.
const likeYAML = `\A(\s*(#[^\n]*)?\n)*\s*(---|- |[A-Za-z_][\w-]*:(\s|\z))`

// syntaxError adds the place to an error of the TOML library and, for the most common
// mistakes, a hint.
func syntaxError(src *Source, err error) *Error {
	message := "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")
	if len(message) > 200 { // it may quote a key of any length
		message = strings.ToValidUTF8(message[:200], "") + "..."
	}
	e, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return src.ErrorAt(0, "", "", message)
	}
	at := src.offset(e.Position())
	next, _ := utf8.DecodeRune(src.Data[at:])
	line := src.Data[bytes.LastIndexByte(src.Data[:at], '\n')+1 : at]
	hint := ""
	switch i := strings.Index(message, "U+"); {
	case regexp.MustCompile(likeYAML).Match(src.Data): // compiled here because it is rarely needed
		hint = "it looks like YAML, and the files of Coppice are TOML; `coppice init` writes an example"
	case strings.HasSuffix(message, "strings cannot have new lines"):
		message, hint = "not TOML: the string is not closed on its line",
			"write the missing quote; text of several lines stands between three quotes"
	case i >= 0 && next >= utf8.RuneSelf:
		// The library reports only the first byte of the character.
		message = message[:i] + fmt.Sprintf("%#U", next)
		hint = "quote keys of other letters than A to Z"
	case bytes.HasSuffix(bytes.TrimRight(line, " \t"), []byte("=")) && unicode.IsLetter(next):
		hint = "text needs quotes"
	}
	return src.ErrorAt(at, strings.Join(e.Key(), "."), hint, message)
}
