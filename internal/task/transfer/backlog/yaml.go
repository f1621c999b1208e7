package backlog

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth bounds the nesting of a file: of brackets, of entries that begin in the same line, and of
// what is read of a value.
const maxDepth = 50

// parse returns the root of a file that is one YAML document without aliases, anchors and tags; nil
// if it is not.
func (r *reader) parse(data []byte) ast.Node {
	if !utf8.Valid(data) {
		line := 1
		for text := range bytes.Lines(data) {
			for at := 0; at < len(text); {
				c, size := utf8.DecodeRune(text[at:])
				if c == utf8.RuneError && size == 1 {
					column := utf8.RuneCount(text[:at]) + 1
					r.errorf(place{line, column}, "this is not UTF-8; convert the file, as with iconv")
					return nil
				}
				at += size
			}
			line++
		}
	}
	tokens := lexer.Tokenize(string(data))
	if !r.checkTokens(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		at, message := place{1, 1}, err.Error()
		if positioned, ok := errors.AsType[yaml.Error](err); ok {
			at, message = placeOf(positioned.GetToken()), positioned.GetMessage()
		}
		r.errorf(at, "it is not YAML: %.200s", message)
		return nil
	}
	var root ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.CommentType:
		case root != nil:
			r.errorf(placeOf(d.Body.GetToken()), "a second document begins here, expected one")
			return nil
		default:
			root = d.Body
		}
	}
	if root == nil {
		r.errorf(place{1, 1}, "it is empty, expected tasks: or one task with id: and objective:")
	}
	return root
}

// maxMissing bounds the values that are left out in a file. Each costs the parser a copy of all tokens.
const maxMissing = 1000

// checkTokens reports what makes a small file large or deep: the parser would follow it.
func (r *reader) checkTokens(tokens token.Tokens) bool {
	brackets, entries, line, missing := 0, 0, 0, 0
	for _, t := range tokens {
		at := placeOf(t)
		if at.line != line {
			entries, line = 0, at.line
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			r.errorf(at, "%.20q: anchors, aliases, merge keys and tags are not read; write the value itself", t.Value)
			return false
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if brackets == 0 {
				entries++
			}
			if isMissing(t) {
				missing++
			}
		}
		if missing > maxMissing {
			r.errorf(at, "more than %d values are missing", maxMissing)
			return false
		}
		if brackets > maxDepth || entries > maxDepth || brackets == 0 && at.column > 100*maxDepth && entries > 0 &&
			t.Type == token.SequenceEntryType {
			r.errorf(at, "it is nested more than %d deep", maxDepth)
			return false
		}
	}
	return true
}

// isMissing reports whether no value follows an entry of a list or a key.
func isMissing(t *token.Token) bool {
	begin := placeOf(t)
	if t.Type == token.MappingValueType && t.Prev != nil {
		begin = placeOf(t.Prev) // the key
	}
	if t.Next == nil {
		return true
	}
	next := placeOf(t.Next)
	list := t.Next.Type == token.SequenceEntryType && t.Type == token.MappingValueType // may begin below the key
	return next.line > begin.line && (next.column < begin.column || next.column == begin.column && !list)
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// field is a key of a mapping with its value.
type field struct {
	name  string
	at    place // of the key
	value ast.Node
}

// fields returns the fields of a mapping; ok is false if a node is none.
func (r *reader) fields(n ast.Node) (all []field, ok bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return nil, false
	}
	for _, v := range values {
		key := v.Key.GetToken()
		all = append(all, field{key.Value, placeOf(key), v.Value})
	}
	return all, true
}

// text returns the value of a scalar as it is written; ok is false if a node is none. A missing value
// is the empty text.
func text(n ast.Node) (value string, ok bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "", true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// value returns a node as a value for JSON.
func (r *reader) value(n ast.Node, depth int) any {
	if depth > maxDepth {
		r.errorf(placeOf(n.GetToken()), "it is nested more than %d deep", maxDepth)
		return nil
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.SequenceNode:
		all := []any{}
		for _, one := range n.Values {
			all = append(all, r.value(one, depth+1))
		}
		return all
	}
	if all, ok := r.fields(n); ok {
		object := make(map[string]any, len(all))
		for _, f := range all {
			object[f.name] = r.value(f.value, depth+1)
		}
		return object
	}
	value, ok := text(n)
	if !ok {
		r.errorf(placeOf(n.GetToken()), "a value of this kind is not read")
	}
	return value
}
