package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// jsonSchema is the part of JSON Schema that descriptions need.
type jsonSchema struct {
	Ref         string      `json:"$ref,omitempty"`
	Type        string      `json:"type,omitempty"`
	Items       *jsonSchema `json:"items,omitempty"`
	Minimum     *float64    `json:"minimum,omitempty"`
	Maximum     *float64    `json:"maximum,omitempty"`
	Description string      `json:"description,omitempty"`
	Format      string      `json:"format,omitempty"`
	Default     any         `json:"default,omitempty"`
	MaxLength   int         `json:"maxLength,omitempty"`
	Enum        []string    `json:"enum,omitempty"`
	Properties  properties  `json:"properties,omitzero"`
	Required    []string    `json:"required,omitzero"`
	Others      any         `json:"additionalProperties,omitempty"` // false if there are none, or their schema
	Encoding    string      `json:"contentEncoding,omitempty"`
}

// properties are the properties of an object, in the order of its type.
type properties []property

type property struct {
	name   string
	schema *jsonSchema
}

// MarshalJSON writes the properties as an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, at := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		schema, err := json.Marshal(at.schema)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", at.name, schema)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemaSet holds the schemas of structs, by name.
type schemaSet map[string]namedSchema

type namedSchema struct {
	of     reflect.Type // nil if a file of the description has it
	schema *jsonSchema
}

// of returns the schema of the type of a value.
func (set schemaSet) of(v any) *jsonSchema {
	s := set.schemaOf(reflect.TypeOf(v))
	if s.Type == "array" {
		s.Description = "Empty, never null."
	}
	return s
}

// schemaOf returns the schema of a type, and adds the structs that it refers to.
func (set schemaSet) schemaOf(t reflect.Type) *jsonSchema {
	if t == reflect.TypeFor[time.Time]() {
		return &jsonSchema{Type: "string", Format: "date-time"}
	}
	if isAny(t) {
		return &jsonSchema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return set.schemaOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &jsonSchema{Type: "string", Encoding: "base64"}
		}
		return &jsonSchema{Type: "array", Items: set.schemaOf(t.Elem())}
	case reflect.Map:
		if isAny(t.Elem()) {
			return &jsonSchema{Type: "object"}
		}
		return &jsonSchema{Type: "object", Others: set.schemaOf(t.Elem())}
	case reflect.Struct:
		return &jsonSchema{Ref: "#/components/schemas/" + set.add(t)}
	case reflect.String:
		return &jsonSchema{Type: "string"}
	case reflect.Bool:
		return &jsonSchema{Type: "boolean"}
	case reflect.Float64:
		return &jsonSchema{Type: "number"}
	case reflect.Int, reflect.Int64:
		return &jsonSchema{Type: "integer"}
	case reflect.Uint64:
		return &jsonSchema{Type: "integer", Minimum: new(float64)}
	}
	panic(fmt.Sprintf("%v is no type of the API", t))
}

// isAny reports whether values of a type can be any JSON, because the type encodes itself.
func isAny(t reflect.Type) bool {
	plain := t.Kind() == reflect.String || t.Kind() == reflect.Slice
	return plain && t.Implements(reflect.TypeFor[json.Marshaler]())
}

// add describes a struct and returns the name of its schema: the schema tag of its field _, or
// else the name of the type.
func (set schemaSet) add(t reflect.Type) string {
	self, _ := t.FieldByName("_")
	name := self.Tag.Get("schema")
	if name == "" {
		name = t.Name()
	}
	if known, ok := set[name]; ok {
		if known.of != t && known.of != nil {
			panic(fmt.Sprintf("the schemas of %v and %v have one name", known.of, t))
		}
		return name
	}
	s := &jsonSchema{
		Type: "object", Description: self.Tag.Get("doc"), Properties: properties{}, Required: []string{},
	}
	if self.Tag.Get("open") == "" {
		s.Others = false
	}
	set[name] = namedSchema{t, s}
	for _, f := range fieldsOf(t) {
		p := set.schemaOf(f.Type)
		if p.Ref == "" {
			f.constrain(p)
		}
		s.Properties = append(s.Properties, property{f.name, p})
		if !f.optional {
			s.Required = append(s.Required, f.name)
		}
	}
	return name
}

// constrain adds the constraints in the tags of a field to its schema.
func (f field) constrain(s *jsonSchema) {
	s.Description = f.Tag.Get("doc")
	for tag, bound := range map[string]**float64{"minimum": &s.Minimum, "maximum": &s.Maximum} {
		if text := f.Tag.Get(tag); text != "" {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				panic(fmt.Sprintf("field %s: %s: %v", f.Name, tag, err))
			}
			*bound = &n
		}
	}
	if maximum := f.Tag.Get("maxLength"); maximum != "" {
		n, err := strconv.Atoi(maximum)
		if err != nil {
			panic(fmt.Sprintf("field %s: maxLength: %v", f.Name, err))
		}
		s.MaxLength = n
	}
	if values := f.Tag.Get("enum"); values != "" {
		s.Enum = strings.Split(values, ",")
	}
}
