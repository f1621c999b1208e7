package fakemodel

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A toolset holds the tools that a request offers, in their order, with the JSON schemas of their
// arguments.
type toolset struct {
	names      []string
	schemas    map[string]object
	namespaces map[string]string // of the tools that are in one
}

// add adds a tool, or replaces the schema of one with this name.
func (t *toolset) add(name string, schema any) {
	if name == "" {
		return
	}
	if t.schemas == nil {
		t.schemas = map[string]object{}
	}
	if !t.has(name) {
		t.names = append(t.names, name)
	}
	t.schemas[name] = asObject(schema)
}

// addTo adds a tool of a namespace. The first tool of a name keeps it.
func (t *toolset) addTo(namespace, name string, schema any) {
	if name == "" || t.has(name) {
		return
	}
	t.add(name, schema)
	if t.namespaces == nil {
		t.namespaces = map[string]string{}
	}
	t.namespaces[name] = namespace
}

// has reports whether there is a tool of this name.
func (t *toolset) has(name string) bool {
	_, found := t.schemas[name]
	return found
}

// find returns the first tool whose name matches as nameMatches says.
func (t *toolset) find(name string) string {
	for _, tool := range t.names {
		if nameMatches(tool, name) {
			return tool
		}
	}
	return ""
}

// nameMatches reports whether a tool has a name, or one that ends with it after "_" or ".", as the
// names of MCP tools do.
func nameMatches(tool, name string) bool {
	before, found := strings.CutSuffix(tool, name)
	return found && (before == "" || strings.HasSuffix(before, "_") || strings.HasSuffix(before, "."))
}

// shell returns the name of the tool that runs shell commands: one of the names that coding agents
// use, or else the first with an argument "command" or "cmd".
func (t *toolset) shell() string {
	for _, name := range []string{
		"Bash", "bash", "shell_command", "exec_command", "shell", "run_shell_command", toolLocalShell, "container.exec",
	} {
		if t.has(name) {
			return name
		}
	}
	for _, name := range t.names {
		properties := asObject(t.schemas[name]["properties"])
		if properties["command"] != nil || properties["cmd"] != nil {
			return name
		}
	}
	return ""
}

// shellInput returns arguments of a shell tool that run a command, with values for all that its
// schema requires.
func shellInput(schema object, command string) object {
	properties := asObject(schema["properties"])
	if len(properties) == 0 {
		properties = object{"command": object{"type": "string"}}
	}
	input := object{}
	for _, key := range []string{"command", "cmd"} {
		property, found := properties[key]
		if !found {
			continue
		}
		input[key] = command
		if strings.EqualFold(asText(at(property, "type")), "array") {
			input[key] = []any{"sh", "-c", command}
		}
		break
	}
	for _, required := range asList(schema["required"]) {
		if key := asText(required); key != "" && input[key] == nil {
			property := properties[key]
			if property == nil {
				property = object{}
			}
			input[key] = instance(property, key)
		}
	}
	return input
}

// instance returns a value that a JSON schema allows. Key is the name of the value within its
// object.
func instance(schema any, key string) any {
	s, ok := schema.(object)
	if !ok {
		return "x"
	}
	if values := asList(s["enum"]); len(values) > 0 {
		if slices.ContainsFunc(values, func(v any) bool { return v == any("user") }) {
			return "user"
		}
		return values[0]
	}
	if value, found := s["const"]; found {
		return value
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		if choices := asList(s[choice]); len(choices) > 0 {
			return instance(choices[0], key)
		}
	}
	properties := asObject(s["properties"])
	switch schemaType(s) {
	case "object":
		value := object{}
		for name, property := range properties {
			value[name] = instance(property, name)
		}
		return value
	case "array":
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return false
	case "null":
		return nil
	}
	return strings.TrimSpace("fake " + key)
}

// schemaType returns the type of a JSON schema, in lower case; the first if there are several.
func schemaType(schema object) string {
	declared := schema["type"]
	if all := asList(declared); len(all) > 0 {
		declared = all[0]
	}
	if name := asText(declared); name != "" {
		return strings.ToLower(name)
	}
	if schema["properties"] != nil {
		return "object"
	}
	return "string"
}

// called reports whether a conversation has a call of a tool, found as nameMatches says.
func called(conversation any, name string) bool {
	switch v := conversation.(type) {
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return called(element, name) })
	case object:
		if nameMatches(asText(v["name"]), name) {
			return true
		}
		for _, value := range v {
			if called(value, name) {
				return true
			}
		}
	}
	return false
}

// fullName returns the name of an MCP tool, mcp__SERVER__NAME, as the first text of a request that
// has it gives it. If there is none, it is the name as given.
func fullName(body []byte, name string) string {
	words := regexp.MustCompile(`\bmcp__[\w-]+`)
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return name
		}
		text, _ := token.(string)
		for _, word := range words.FindAllString(text, -1) {
			if server, found := strings.CutSuffix(word, "__"+name); found && len(server) > len("mcp__") {
				return word
			}
		}
	}
}
