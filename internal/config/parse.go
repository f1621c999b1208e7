package config

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

// parse reads a TOML document.
func parse(src *source) (*value, *Error) {
	if err := src.checkText(); err != nil {
		return nil, err
	}
	p := parser{src: src}
	root := p.document()
	if p.crowded != nil {
		return nil, src.errorAt(p.crowded.key, p.crowded.path(), "",
			fmt.Sprintf("a table of more than %d keys, expected at most that", maxKeys))
	}
	// The library checks what the tree takes for granted: keys that are defined
	// twice, tables that are none, numbers out of range.
	var document map[string]any
	err := toml.Unmarshal(src.data, &document)
	if err == nil {
		err = p.Error()
	}
	switch {
	case err == nil:
		return root, nil
	case p.doubled != nil:
		first := p.doubled.parent.byName[p.doubled.name]
		line, _ := src.position(first.key)
		return nil, src.errorAt(p.doubled.key, p.doubled.path(), "remove one of the two",
			fmt.Sprintf("the key %s is there twice, first in line %d, expected once", bareKey(first.name), line))
	}
	return nil, syntaxError(src, err)
}

type parser struct {
	unstable.Parser
	src     *source
	doubled *value // the first key that is there twice
	crowded *value // the first key that is too much for its table
}

// maxKeys bounds the keys of a table. The library compares each key with all
// others of its table, which would take minutes in the largest of files.
const maxKeys = 1000

// document builds the tree, as far as the syntax is right.
func (p *parser) document() *value {
	root := newTable(p.src, "", 0, nil)
	current := root
	p.Reset(p.src.data)
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
				array = p.add(current, &value{kind: isArray, src: p.src, at: at, key: at, name: name, parent: current})
			}
			current = array.append(newTable(p.src, "", at, array))
		case unstable.KeyValue:
			p.keyValue(e, current)
		}
	}
	return root
}

// table returns the table that the key k leads to from v on its way: that of
// the last element where it is an array of tables.
func (p *parser) table(v *value, k unstable.Iterator) *value {
	name, at := keyOf(k)
	t := v.byName[name]
	if t == nil {
		return p.add(v, newTable(p.src, name, at, v))
	}
	if t.kind == isArray && len(t.elements) > 0 {
		t = t.elements[len(t.elements)-1]
	}
	if t.kind != isTable {
		return newTable(p.src, name, at, v) // not TOML, which the library says
	}
	return t
}

func (p *parser) add(table, field *value) *value {
	table.fields = append(table.fields, field)
	table.byName[field.name] = field
	if len(table.fields) > maxKeys && p.crowded == nil {
		p.crowded = field
	}
	return field
}

func keyOf(k unstable.Iterator) (name string, at int) {
	return string(k.Node().Data), int(k.Node().Raw.Offset)
}

func (p *parser) keyValue(n *unstable.Node, into *value) {
	k := n.Key()
	for k.Next() && !k.IsLast() {
		into = p.table(into, k)
	}
	name, key := keyOf(k)
	// Arrays have no place of their own in the syntax tree, but start behind the "=".
	at := key + int(k.Node().Raw.Length)
	for at < len(p.src.data) && strings.IndexByte(" \t=", p.src.data[at]) >= 0 {
		at++
	}
	v := p.value(n.Value(), at, into)
	v.name, v.key = name, key
	if into.byName[name] == nil {
		p.add(into, v)
	} else if p.doubled == nil {
		p.doubled = v
	}
}

func (p *parser) value(n *unstable.Node, at int, parent *value) *value {
	if n.Raw.Length > 0 {
		at = int(n.Raw.Offset)
	}
	switch n.Kind {
	case unstable.Array:
		v := &value{kind: isArray, src: p.src, at: at, key: at, parent: parent}
		for it := n.Children(); it.Next(); {
			v.append(p.value(it.Node(), at, v))
		}
		return v
	case unstable.InlineTable:
		v := newTable(p.src, "", at, parent)
		for it := n.Children(); it.Next(); {
			p.keyValue(it.Node(), v)
		}
		return v
	}
	scalars := map[unstable.Kind]kind{unstable.String: isString, unstable.Integer: isInteger, unstable.Float: isFloat,
		unstable.Bool: isBool}
	k, ok := scalars[n.Kind]
	if !ok {
		k = isTime
	}
	return &value{kind: k, src: p.src, at: at, key: at, parent: parent, text: string(n.Data)}
}

// likeYAML matches files whose first line that is no comment is one of YAML.
var likeYAML = regexp.MustCompile(`\A(\s*(#[^\n]*)?\n)*\s*(---|- |[A-Za-z_][\w-]*:(\s|\z))`)

// syntaxError gives an error of the TOML library a place and, for the most
// common mistakes, a hint.
func syntaxError(src *source, err error) *Error {
	message := "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")
	if len(message) > 200 { // it may quote a key of any length
		message = strings.ToValidUTF8(message[:200], "") + "..."
	}
	var e *toml.DecodeError
	if !errors.As(err, &e) {
		return src.errorAt(0, "", "", message)
	}
	at := src.offset(e.Position())
	next, _ := utf8.DecodeRune(src.data[at:])
	line := src.data[bytes.LastIndexByte(src.data[:at], '\n')+1 : at]
	hint := ""
	switch i := strings.Index(message, "U+"); {
	case likeYAML.Match(src.data):
		hint = "it looks like YAML, and the files of Coppice are TOML; `coppice init` writes an example"
	case strings.HasSuffix(message, "strings cannot have new lines"):
		message, hint = "not TOML: the string is not closed on its line",
			"write the missing quote; text of several lines stands between three quotes"
	case i >= 0 && next >= utf8.RuneSelf:
		// The library takes the first byte of a character for all of it.
		message = message[:i] + fmt.Sprintf("%#U", next)
		hint = "quote keys of other letters than A to Z"
	case bytes.HasSuffix(bytes.TrimRight(line, " \t"), []byte("=")) && unicode.IsLetter(next):
		hint = "text needs quotes"
	}
	return src.errorAt(at, strings.Join(e.Key(), "."), hint, message)
}
