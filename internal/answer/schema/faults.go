package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxFaults bounds the faults after which no further elements are checked.
const maxFaults = 20

// finder finds all faults of a value with their pointers. The validator stops at the first fault
// and names only its place in the schema, but a model that knows all of them needs fewer attempts.
type finder struct {
	schema *Schema
	own    map[*jsonschema.Schema]*jsonschema.Resolved // parts without their nested schemas; nil if not possible
	faults []Fault
}

func (f *finder) find(part *jsonschema.Schema, doc any, pointer string) {
	if len(f.faults) >= maxFaults {
		return
	}
	part = f.schema.Target(part)
	if own := f.resolve(part); own != nil {
		if err := own.Validate(doc); err != nil {
			f.faults = append(f.faults, Fault{pointer, strings.TrimPrefix(err.Error(), "validating root: ")})
		}
	}
	switch doc := doc.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(part.Properties)) {
			if value, ok := doc[name]; ok {
				f.find(part.Properties[name], value, pointer+"/"+escape(name))
			}
		}
	case []any:
		for i, value := range doc {
			item := part.Items
			if i < len(part.PrefixItems) {
				item = part.PrefixItems[i]
			}
			if item != nil {
				f.find(item, value, pointer+"/"+strconv.Itoa(i))
			}
		}
	}
}

// resolve returns a part of the schema in which everything about nested values is left out.
func (f *finder) resolve(part *jsonschema.Schema) *jsonschema.Resolved {
	if own, ok := f.own[part]; ok {
		return own
	}
	own := *part
	own.Schema, own.Defs, own.Definitions = f.schema.Root.Schema, f.schema.Root.Defs, f.schema.Root.Definitions
	own.Properties = maps.Clone(part.Properties)
	for name := range own.Properties {
		own.Properties[name] = new(jsonschema.Schema)
	}
	own.PrefixItems = make([]*jsonschema.Schema, len(part.PrefixItems))
	for i := range own.PrefixItems {
		own.PrefixItems[i] = new(jsonschema.Schema)
	}
	if part.Items != nil {
		own.Items = new(jsonschema.Schema)
	}
	resolved, err := own.CloneSchemas().Resolve(nil)
	if err != nil { // it needs a part that is left out
		resolved = nil
	}
	f.own[part] = resolved
	return resolved
}

// escape prepares a name for a JSON pointer (RFC 6901).
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
