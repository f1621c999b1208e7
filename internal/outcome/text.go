package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Parse reads an outcome that somebody has written: one JSON object as a Report is.
// A name that it does not know is an error, for what was meant by it would be lost.
func Parse(data []byte) (Outcome, error) {
	if len(data) > MaxBytes {
		return Outcome{}, &Error{Wrong: []string{tooLong(len(data), "")}}
	}
	var f *Report
	if err := strict(data, &f); err != nil {
		return Outcome{}, fmt.Errorf("outcome: %w", err)
	}
	if f == nil {
		return Outcome{}, errors.New("outcome: expected an object, not null")
	}
	return New(*f)
}

// ParseTime reads a time as people and models write it: RFC 3339, or a duration from now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if d, err := timespan.Parse(text); err == nil {
		return now.Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("not_before is %.80q, expected a duration such as 30m or a time "+
			"such as 2030-01-02T15:04:05Z", text)
	}
	return at, nil
}

// names are those of all fields, for suggestions.
func names() []string {
	return []string{
		"kind", "summary", "context", "not_before", "subtasks", "condition", "question", "approach", "obstacle",
		"discoveries", "recommendation",
		"explored_state", "files", "dependencies", "notes", "id", "objective", "depends_on", "definition_of_done",
		"what", "task_id", "reason",
		"description", "model", "error_class", "service", "estimated_files", "max_files",
	}
}

// strict decodes one JSON value without unknown names, and says where it cannot.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return fmt.Errorf("%s: something follows the object", place(data, d.InputOffset()))
	}
	at := d.InputOffset()
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mistyped):
		at = mistyped.Offset
	case err == io.EOF:
		return errors.New("expected a JSON object, found nothing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		at = int64(len(data)) + 1
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		if near := suggest.Nearest(strings.Trim(name, `"`), names()); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		return errors.New(text) // the decoder has read on: it does not know where that was
	}
	return fmt.Errorf("%s: %.300s", place(data, at), text)
}

// place is where an offset is, as line:column.
func place(data []byte, offset int64) string {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("%d:%d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// texts yields all text of the fields with the field it is in.
func (f Report) texts() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		one := func(field, text string) bool { return text == "" || yield(field, text) }
		all := func(field string, texts []string) bool {
			for i, t := range texts {
				if !one(fmt.Sprintf("%s[%d]", field, i), t) {
					return false
				}
			}
			return true
		}
		if !one("summary", f.Summary) || !one("question", f.Question) {
			return
		}
		if c := f.Context; c != nil {
			o := c.Obstacle
			if !one("context.approach", c.Approach) || !one("context.recommendation", c.Recommendation) ||
				!all("context.discoveries", c.Discoveries) ||
				!all("context.explored_state.files", c.Explored.Files) ||
				!all("context.explored_state.dependencies", c.Explored.Dependencies) ||
				!one("context.explored_state.notes", c.Explored.Notes) || !one("context.obstacle.task_id", o.TaskID) ||
				!one("context.obstacle.reason", o.Reason) || !one("context.obstacle.description", o.Description) ||
				!one("context.obstacle.model", o.Model) ||
				!one("context.obstacle.error_class", o.ErrorClass) || !one("context.obstacle.service", o.Service) {
				return
			}
		}
		if f.Condition != nil && !one("condition.what", f.Condition.What) {
			return
		}
		for i, s := range f.Subtasks {
			at := fmt.Sprintf("subtasks[%d]", i)
			if !one(at+".id", s.ID) || !one(at+".objective", s.Objective) ||
				!one(at+".definition_of_done", s.DefinitionOfDone) || !all(at+".depends_on", s.DependsOn) {
				return
			}
		}
	}
}
