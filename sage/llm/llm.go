// Package llm asks language models. A program gets either an answer of the shape that it needs or
// an error that says why there is none.
//
// A Model answers one prompt: an OpenAI-compatible server (API) or the command line of an agent
// (Command). Checked turns a Model into an Oracle, which also validates answers against a JSON
// Schema and asks again. Mock and Script are oracles for tests, without a model. FromEnv makes the
// oracle that the user's environment names.
//
// No state is kept between two questions, and everything is safe for concurrent use.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Oracle answers questions.
type Oracle interface {
	// Ask returns the text of the answer without white space around it. If the question has a
	// schema, the text is the valid JSON value in the answer. The error wraps the cause of ctx if
	// ctx ended the question.
	Ask(ctx context.Context, q Question) (string, error)
}

// Question is a prompt and the shape of its answer.
type Question struct {
	Prompt string
	// Schema is the JSON Schema of the answer (draft 2020-12 unless $schema names another). It
	// cannot refer to other documents. If it is nil, the answer is text.
	Schema json.RawMessage
}

// Model answers a prompt with text.
type Model interface {
	Complete(ctx context.Context, prompt string) (string, error)
}

// Bounds.
const (
	MaxPrompt = 4 << 20 // bytes of a prompt with the text that is added to it
	MaxAnswer = 8 << 20 // bytes of an answer with everything around it

	maxQuoted = 4 << 10 // bytes of an answer in the next prompt, or in an error
	maxReason = 2 << 10 // bytes of the text of a model, a server or a command in an error
)

// DefaultRetries is the default number of retries.
const DefaultRetries = 3

// Errors that are wrapped by those of Ask.
var (
	// ErrNotConfigured means that no model is configured.
	ErrNotConfigured = errors.New("no model is configured")
	// ErrShape means that the answer does not fit the schema. See ShapeError.
	ErrShape = errors.New("the answer does not fit")
)

// ShapeError means that no answer fitted the schema. It wraps ErrShape.
type ShapeError struct {
	Tries  int    // number of rejected answers
	Last   string // the last answer, cut to 4 KiB
	Reason error  // why the last answer was rejected
}

func (e *ShapeError) Error() string {
	tries := "an answer"
	if e.Tries > 1 {
		tries = fmt.Sprintf("the last of %d answers", e.Tries)
	}
	return fmt.Sprintf("%s of the model does not fit the type that was asked for: %v; it was: %.500q", tries,
		e.Reason, e.Last)
}

func (e *ShapeError) Unwrap() []error { return []error{ErrShape, e.Reason} }

// Checked returns an Oracle that asks a model. If an answer does not fit the schema, the model is
// asked again up to retries times, with the fault in the prompt. After that the error is a
// *ShapeError. Errors of the model are not retried here, since the model knows which are
// temporary.
func Checked(m Model, retries int) Oracle { return checked{m, retries} }

type checked struct {
	model   Model
	retries int
}

func (c checked) Ask(ctx context.Context, q Question) (string, error) {
	if err := q.check(); err != nil {
		return "", err
	}
	if q.Schema == nil {
		text, err := c.model.Complete(ctx, q.Prompt)
		return strings.TrimSpace(text), err
	}
	s, err := compile(q.Schema)
	if err != nil {
		return "", err
	}
	first := typedPrompt(q)
	prompt := first
	for refused := 1; ; refused++ {
		if len(prompt) > MaxPrompt {
			return "", tooLong(len(prompt))
		}
		text, err := c.model.Complete(ctx, prompt)
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(text)
		doc, err := read(s, text)
		if err == nil {
			return string(doc), nil
		}
		if refused > c.retries {
			return "", &ShapeError{Tries: refused, Last: cut(text, maxQuoted), Reason: err}
		}
		prompt = first + correction(text, err)
	}
}

func (q Question) check() error {
	switch n := len(q.Prompt) + len(q.Schema); {
	case strings.TrimSpace(q.Prompt) == "":
		return errors.New("the prompt is empty")
	case n > MaxPrompt:
		return tooLong(n)
	case !utf8.ValidString(q.Prompt):
		return errors.New("the prompt is not valid UTF-8")
	}
	return nil
}

func tooLong(n int) error {
	return fmt.Errorf("the prompt has %d bytes, at most %d are sent: ask about less at a time", n, MaxPrompt)
}

// typedPrompt returns a prompt that asks for the shape in words. Every model understands words.
// The ways of servers and commands to enforce a schema all differ, and none accepts every schema.
func typedPrompt(q Question) string {
	return q.Prompt +
		"\n\nAnswer with one JSON value that is valid against this JSON Schema, and with nothing else:\n" +
		string(q.Schema) + "\n"
}

// correction returns the addition to the prompt after a rejected answer.
func correction(text string, reason error) string {
	return "\nAn earlier answer was refused. It was:\n" + cut(text, maxQuoted) +
		"\nWhat is wrong with it: " + reason.Error() +
		"\nAnswer again, with the corrected JSON value and with nothing else.\n"
}

// cut shortens text to at most n bytes, between characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// quote prepares the text of a model, a server or a command for an error.
func quote(text string) string {
	return cut(strings.Join(strings.Fields(plaintext.Line(cut(strings.ToValidUTF8(text, "\uFFFD"), 4*maxReason))), " "),
		maxReason)
}
