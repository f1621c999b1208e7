package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Parse parses an outcome that a person or a model has written as a JSON object like Report. An
// unknown field is an error, since its content would be lost.
func Parse(data []byte) (Outcome, error) {
	if len(data) > MaxBytes {
		return Outcome{}, &Error{Wrong: []string{errTooLong(len(data), "")}}
	}
	var r *Report
	if err := decodeStrict(data, &r); err != nil {
		return Outcome{}, fmt.Errorf("outcome: %w", err)
	}
	if r == nil {
		return Outcome{}, errors.New("outcome: expected an object, not null")
	}
	return New(*r)
}

// ParseTime parses a time in RFC 3339, or a duration from now.
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

// fieldNames returns the names of all fields, for suggestions.
func fieldNames() []string {
	return []string{
		"kind", "summary", "context", "not_before", "subtasks", "condition", "question", "approach", "obstacle",
		"discoveries", "recommendation", "explored_state", "files", "dependencies", "notes", "id", "objective",
		"depends_on", "definition_of_done", "what", "task_id", "reason", "description", "model", "error_class",
		"service", "estimated_files", "max_files", "evidence", "text", "branch", "commit", "base", "insertions",
		"deletions", "checks", "name", "command", "passed", "exit_code", "pull_request",
	}
}

// decodeStrict decodes one JSON value without unknown fields. Errors begin with their position.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return fmt.Errorf("%s: something follows the object", position(data, d.InputOffset()))
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
		if near := suggest.Nearest(strings.Trim(name, `"`), fieldNames()); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		return errors.New(text) // the decoder has read on: it does not know where that was
	}
	return fmt.Errorf("%s: %.300s", position(data, at), text)
}

// position returns the line and column of an offset.
func position(data []byte, offset int64) string {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("%d:%d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// texts calls visit for each text of a report, with the name of its field.
func (r Report) texts(visit func(field, text string)) {
	cloneNonEmpty := func(field string, texts []string) {
		for i, t := range texts {
			visit(fmt.Sprintf("%s[%d]", field, i), t)
		}
	}
	visit("summary", r.Summary)
	visit("question", r.Question)
	if c := r.Context; c != nil {
		visit("context.approach", c.Approach)
		visit("context.recommendation", c.Recommendation)
		cloneNonEmpty("context.discoveries", c.Discoveries)
		cloneNonEmpty("context.explored_state.files", c.Explored.Files)
		cloneNonEmpty("context.explored_state.dependencies", c.Explored.Dependencies)
		visit("context.explored_state.notes", c.Explored.Notes)
		visit("context.obstacle.task_id", c.Obstacle.TaskID)
		visit("context.obstacle.reason", c.Obstacle.Reason)
		visit("context.obstacle.description", c.Obstacle.Description)
		visit("context.obstacle.model", c.Obstacle.Model)
		visit("context.obstacle.error_class", c.Obstacle.ErrorClass)
		visit("context.obstacle.service", c.Obstacle.Service)
	}
	r.Evidence.texts(visit)
	if r.Condition != nil {
		visit("condition.what", r.Condition.What)
	}
	for i, s := range r.Subtasks {
		at := fmt.Sprintf("subtasks[%d]", i)
		visit(at+".id", s.ID)
		visit(at+".objective", s.Objective)
		visit(at+".definition_of_done", s.DefinitionOfDone)
		cloneNonEmpty(at+".depends_on", s.DependsOn)
	}
}
