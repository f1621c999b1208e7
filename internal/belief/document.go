package belief

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
)

// Version is the version of the document format.
const Version = 1

// MaxDocument bounds a document, in bytes.
const MaxDocument = 256 << 20

// Document is a file with the beliefs of agents, for export and import.
type Document struct {
	Version int         `json:"version"`
	Project string      `json:"project"` // the first segment of the paths
	Agents  AgentValues `json:"agents"`  // by path
}

// AgentValues holds the values of agents by path. Decoding is as strict as that of value.Named,
// and checks paths and names.
type AgentValues map[string]value.Named

// UnmarshalJSON decodes an object of objects.
func (a *AgentValues) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("agents is not an object, expected one with a path for each agent")
	}
	*a = make(AgentValues)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		path := t.(string) // keys of JSON objects are strings
		if wrong := CheckPath(path); wrong != "" {
			return errors.New(wrong)
		}
		if _, twice := (*a)[path]; twice {
			return fmt.Errorf("the agent %s is there twice, expected once", spec.Quote(path))
		}
		var values value.Named
		if err := d.Decode(&values); err != nil {
			return fmt.Errorf("agent %s: %w", spec.Quote(path), err)
		}
		for name := range values {
			if wrong := spec.CheckBeliefName(name); wrong != "" {
				return fmt.Errorf("agent %s: %s", spec.Quote(path), wrong)
			}
		}
		(*a)[path] = values
	}
	return nil
}

// ParseDocument parses a document. Errors begin with a line and a column, and name the agent and
// the belief.
func ParseDocument(text []byte) (Document, error) {
	if len(text) > MaxDocument {
		return Document{}, DocumentTooLarge(len(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var doc Document
	err := d.Decode(&doc)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the document")
		}
	}
	if err == nil && doc.Version != Version {
		err = fmt.Errorf("version is %d, expected %d", doc.Version, Version)
	}
	if err == nil && doc.Agents == nil {
		err = errors.New("agents is missing, expected an object with a path for each agent")
	}
	if err == nil {
		return doc, nil
	}
	at := d.InputOffset()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(text)), errors.New("the document ends too early")
	case errors.As(err, &syntax):
		at = max(syntax.Offset-1, 0)
	case errors.As(err, &kind):
		at, err = kind.Offset, fmt.Errorf("%s is a JSON %s, expected another type", kind.Field, kind.Value)
	}
	before := text[:min(int(at), len(text))]
	return Document{}, &value.Error{
		Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Message: "not an export of beliefs: " + strings.TrimPrefix(err.Error(), "json: "),
	}
}

// DocumentTooLarge returns the error for a document of at least so many bytes.
func DocumentTooLarge(bytes int) error {
	return &value.LimitError{What: "the file", Have: bytes, Max: MaxDocument, Unit: "bytes",
		Hint: "export and import agents one by one"}
}

// Write writes the document as indented JSON with sorted keys.
func (d Document) Write(w io.Writer) error {
	var flat, b bytes.Buffer
	e := json.NewEncoder(&flat)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return err
	}
	if err := json.Indent(&b, flat.Bytes(), "", "  "); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Of returns the document for another project: the project's name at the beginning of paths is
// replaced.
func (d Document) Of(project string) Document {
	agents := make(AgentValues, len(d.Agents))
	for path, values := range d.Agents {
		if rest, ok := strings.CutPrefix(path, d.Project+"/"); ok {
			path = project + "/" + rest
		}
		agents[path] = values
	}
	return Document{Version: d.Version, Project: project, Agents: agents}
}

// Difference is a belief that an import would change.
type Difference struct {
	Path, Name string
	Have, Want value.Value // Have is empty if nothing is stored
}

func (d Difference) String() string {
	const most = 200
	if d.Have == "" {
		return fmt.Sprintf("+ %s %s = %s", d.Path, d.Name, d.Want.Brief(most))
	}
	return fmt.Sprintf("~ %s %s = %s, was %s", d.Path, d.Name, d.Want.Brief(most), d.Have.Brief(most))
}

// Differences returns what an import would change of an agent's values, sorted by name. Values
// that are not wanted stay.
func Differences(path string, have, wanted value.Named) []Difference {
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if have[name] != wanted[name] {
			all = append(all, Difference{path, name, have[name], wanted[name]})
		}
	}
	return all
}
