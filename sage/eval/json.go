package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/sage/types"
)

// jsonObject is a JSON object with its keys in order.
type jsonObject []jsonMember

type jsonMember struct {
	key   string
	value any
}

// get returns the value of a key. If there are several, the last one counts.
func (o jsonObject) get(key string) (any, bool) {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].key == key {
			return o[i].value, true
		}
	}
	return nil, false
}

// maxJSON bounds the nesting depth of JSON.
const maxJSON = 1000

// parseJSON reads one JSON value: nil, bool, json.Number, string, []any or jsonObject.
func parseJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	tree, err := parseValue(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("unexpected end of text")
		}
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid JSON: text after the value")
	}
	return tree, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxJSON {
		return nil, fmt.Errorf("nested deeper than %d levels", maxJSON)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			e, err := parseValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		object := jsonObject{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			object = append(object, jsonMember{key.(string), v})
		}
		_, err := d.Token()
		return object, err
	}
	return t, nil
}

// schema returns the JSON Schema of a shape, for a model.
func (s *shape) schema() json.RawMessage {
	b := schemaBuilder{names: map[*shape]string{}}
	root := b.of(s)
	if len(b.defs) > 0 {
		root["$defs"] = b.defs
	}
	text, _ := json.Marshal(root)
	return text
}

type schemaBuilder struct {
	names map[*shape]string // of records and enums
	defs  map[string]any
}

func (b *schemaBuilder) of(s *shape) map[string]any {
	switch s.kind {
	case types.Int:
		return map[string]any{"type": "integer"}
	case types.Float:
		return map[string]any{"type": "number"}
	case types.Bool:
		return map[string]any{"type": "boolean"}
	case types.String:
		return map[string]any{"type": "string"}
	case types.List:
		return map[string]any{"type": "array", "items": b.of(s.elems[0])}
	case types.Tuple:
		return b.array(s.elems)
	case types.Map:
		if s.elems[0].kind == types.String {
			return map[string]any{"type": "object", "additionalProperties": b.of(s.elems[1])}
		}
		return map[string]any{"type": "array", "items": b.array(s.elems)}
	case types.Record, types.Enum:
		if s.option {
			inner := b.of(s.payloads[0][0])
			if s.payloads[0][0].nullable() {
				inner = singleProperty("Some", inner)
			}
			return map[string]any{"anyOf": []any{inner, map[string]any{"type": "null"}}}
		}
		return b.named(s)
	}
	return map[string]any{"type": "null"}
}

// named returns a reference to the schema of a record or an enum, which may contain itself.
func (b *schemaBuilder) named(s *shape) map[string]any {
	name := b.names[s]
	if name == "" {
		name = "t" + strconv.Itoa(len(b.names)+1)
		b.names[s] = name
		if b.defs == nil {
			b.defs = map[string]any{}
		}
		if s.kind == types.Record {
			b.defs[name] = b.object(s)
		} else {
			b.defs[name] = b.enum(s)
		}
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

func (b *schemaBuilder) object(s *shape) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for i, name := range s.record.fields {
		properties[name] = b.of(s.elems[i])
		if !s.elems[i].nullable() {
			required = append(required, name)
		}
	}
	return map[string]any{"title": s.record.name, "type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

func (b *schemaBuilder) enum(s *shape) map[string]any {
	var bare []string
	var all []any
	for i, v := range s.variants {
		switch v.arity {
		case 0:
			bare = append(bare, v.name)
		case 1:
			all = append(all, singleProperty(v.name, b.of(s.payloads[i][0])))
		default:
			all = append(all, singleProperty(v.name, b.array(s.payloads[i])))
		}
	}
	if len(bare) > 0 {
		names := map[string]any{"type": "string", "enum": bare}
		if len(all) == 0 {
			return names
		}
		all = append(all, names)
	}
	return map[string]any{"anyOf": all}
}

func singleProperty(name string, value any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: value}, "required": []string{name},
		"additionalProperties": false}
}

func (b *schemaBuilder) array(elems []*shape) map[string]any {
	items := make([]any, len(elems))
	for i, e := range elems {
		items[i] = b.of(e)
	}
	return map[string]any{"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
}

func jsonNatives() map[string]native {
	// Each native returns None if the text is not an object, lacks the key or has a value of
	// another type.
	field := func(read func(m *machine, tree any) (Value, bool)) native {
		return func(m *machine, a []Value) Value {
			m.charge(2 * len(a[0].text()))
			m.spend(len(a[0].text()) >> 3)
			tree, err := parseJSON(a[0].text())
			if err != nil {
				return none
			}
			object, is := tree.(jsonObject)
			if !is {
				return none
			}
			v, found := object.get(a[1].text())
			if !found {
				return none
			}
			return option(read(m, v))
		}
	}
	return map[string]native{
		"json_parse": func(m *machine, a []Value) Value {
			m.charge(2 * len(a[0].text()))
			if _, err := parseJSON(a[0].text()); err != nil {
				m.throw(Runtime, "json_parse: %v", err)
			}
			return a[0]
		},
		"json_get": field(func(m *machine, v any) (Value, bool) { return m.newText(jsonText(v)), true }),
		"json_get_int": field(func(_ *machine, v any) (Value, bool) {
			n, err := (&shape{kind: types.Int}).value(v)
			return n, err == nil
		}),
		"json_get_float": field(func(_ *machine, v any) (Value, bool) {
			n, is := v.(json.Number)
			x, err := n.Float64()
			return floatValue(x), is && err == nil
		}),
		"json_get_bool": field(func(_ *machine, v any) (Value, bool) {
			b, is := v.(bool)
			return boolValue(b), is
		}),
		"json_get_list": field(func(m *machine, v any) (Value, bool) {
			list, is := v.([]any)
			parts := make([]string, len(list))
			for i, e := range list {
				parts[i] = jsonText(e)
			}
			return m.textList(parts), is
		}),
		"json_stringify": func(m *machine, a []Value) Value { return m.newText(string(encode(a[0]))) },
		"json_escape": func(m *machine, a []Value) Value {
			quoted := appendQuoted(nil, a[0].text())
			return m.newText(string(quoted[1 : len(quoted)-1]))
		},
	}
}

// jsonText returns a JSON value as text: a string as it is, all other values as JSON.
func jsonText(tree any) string {
	if s, is := tree.(string); is {
		return s
	}
	return string(appendTree(nil, tree))
}

func appendTree(to []byte, tree any) []byte {
	switch x := tree.(type) {
	case bool:
		return strconv.AppendBool(to, x)
	case json.Number:
		return append(to, x...)
	case string:
		return appendQuoted(to, x)
	case []any:
		to = appendEach(append(to, '['), ",", x, func(to []byte, _ int, e any) []byte { return appendTree(to, e) })
		return append(to, ']')
	case jsonObject:
		to = appendEach(append(to, '{'), ",", x, func(to []byte, _ int, e jsonMember) []byte {
			return appendTree(append(appendQuoted(to, e.key), ':'), e.value)
		})
		return append(to, '}')
	}
	return append(to, "null"...)
}
