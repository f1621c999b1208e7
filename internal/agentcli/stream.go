// Package agentcli reads what the command lines of language models print while
// they work: how many tokens they have used, whether they have failed, and what
// they answer. It knows the JSON of claude (json, stream-json), codex (exec
// --json), gemini (json, stream-json) and opencode (json), and that of any
// command that prints an object with a usage. It starts nothing and reads no file.
//
// Structured fields decide, and never words. What is no JSON, or of a kind that
// is not known, says nothing: their formats grow.
//
// # What is counted
//
// Tokens are those of the input and of the output together. Input that was read
// from a cache is not counted, as it costs next to nothing; input that was
// written to one is. Some command lines tell of each message, some only of all
// at the end; a total replaces what was counted before, unless it is less: one
// that has crashed may end with zeros.
package agentcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
)

// Report is what a command has said of itself, beside its exit code.
type Report struct {
	Tokens int64  // of input and output
	Known  bool   // it said how many
	Failed bool   // it said that it has failed, whatever its exit code
	Text   string // its answer, if it is not all that it printed
	// Ended says that Tokens are all there will be: the command has told of its
	// end, and need not be kept from using more.
	Ended bool
}

// Bounds of what a stream is remembered by.
const (
	maxObject   = 16 << 20 // bytes of an object; a longer one says nothing
	maxText     = 1 << 20  // bytes of an answer, of which the end is kept
	maxMessages = 100_000  // that are told apart
)

// Stream reads the output of one call of a command, as it comes. The zero Stream
// has read nothing. It may be used by one goroutine at a time.
type Stream struct {
	line    []byte // that has not ended yet
	skip    bool   // the line is too long: to its end
	block   []byte // of an object that has several lines
	depth   int    // of braces that are open in it
	counted bool   // anything was

	messages map[string]int64 // tokens by message, which may be told of several times
	sum      int64            // of messages, and of steps, which are told of once
	total    int64            // what the command says of all of it

	failed, ended bool
	answer        string
}

// Write reads more. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		if !s.skip {
			s.line = append(s.line, part...)
			s.skip = len(s.line) > maxObject
		}
		if !ended {
			break
		}
		if s.skip {
			s.drop()
		} else {
			s.read(s.line)
		}
		s.line, s.skip = s.line[:0], false
		p = rest
	}
	if cap(s.line) > maxObject/4 && len(s.line) == 0 {
		s.line = nil
	}
	return n, nil
}

// Close says that nothing more will come: the last line is at its end. It never fails.
func (s *Stream) Close() error {
	if !s.skip {
		s.read(s.line)
	}
	s.line, s.skip = nil, false
	s.drop()
	return nil
}

// Report is what is known by now, from lines that have ended.
func (s *Stream) Report() Report {
	return Report{Tokens: max(s.sum, s.total), Known: s.counted, Failed: s.failed, Ended: s.ended,
		Text: strings.TrimSpace(s.answer)}
}

// read reads a line: an object, a part of one, or nothing of interest.
func (s *Stream) read(line []byte) {
	opens := bytes.HasPrefix(line, []byte("{"))
	if s.depth == 0 {
		line = bytes.TrimSpace(line)
		opens = bytes.HasPrefix(line, []byte("{"))
	}
	if !opens && s.depth == 0 {
		return
	}
	if opens {
		s.drop() // one that never ended: within objects lines are indented
	}
	depth, whole := countBraces(line)
	switch {
	case !whole: // it was cut off in a string
		s.drop()
	case opens && depth == 0:
		s.object(line)
	default:
		s.block = append(append(s.block, line...), '\n')
		s.depth += depth
		if s.depth < 0 || len(s.block) > maxObject {
			s.drop()
		} else if s.depth == 0 {
			s.object(s.block)
			s.drop()
		}
	}
}

func (s *Stream) drop() { s.block, s.depth = nil, 0 }

// braces counts those that a line leaves open; whole is false if it ends in a
// string, as no line of JSON does.
func countBraces(line []byte) (depth int, whole bool) {
	inString := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
	}
	return depth, !inString
}

// object reads an object that a command has printed.
func (s *Stream) object(text []byte) {
	var o printed
	if err := json.Unmarshal(text, &o); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok { // a field of another type is ignored
			return
		}
	}
	switch o.Type {
	case "assistant": // claude
		s.ended = false
		if n, ok := o.Message.Usage.sum(); ok {
			s.addMessage(o.Message.ID, n)
		}
		for _, c := range o.Message.Content {
			if c.Type == "text" && o.Parent == "" {
				s.setAnswer(c.Text)
			}
		}
	case "user", "system", "stream_event", "tool_use", "tool_result", "rate_limit_event", "item.started",
		"item.updated":
	case "item.completed": // codex
		if o.Item.Type == "agent_message" {
			s.setAnswer(o.Item.Text)
		}
	case "turn.started":
		s.ended = false
	case "turn.completed", "turn.failed":
		s.ended, s.failed = true, o.Type == "turn.failed"
		if n, ok := o.Usage.sum(); ok {
			s.setTotal(n)
		}
		if s.failed {
			s.setAnswer(o.Error.Message)
		}
	case "message": // gemini
		if o.Role == "assistant" && o.Delta {
			s.answer = lastPart(s.answer + o.Content)
		} else if o.Role == "assistant" {
			s.setAnswer(o.Content)
		}
	case "step_start": // opencode
		s.ended = false
	case "step_finish":
		s.ended = o.Part.Reason != "tool-calls"
		if n, ok := o.Part.Tokens.sum(); ok {
			s.counted, s.sum = true, Add(s.sum, n)
		}
	case "text":
		s.setAnswer(o.Part.Text)
	case "error": // of the others it is something that they go on after
		s.failed = s.failed || o.Session != ""
	default:
		s.result(&o)
	}
}

// result reads what is said of all of a call.
func (s *Stream) result(o *printed) {
	n, known := o.ModelUsage.sum()
	if !known {
		n, known = o.Usage.sum()
	}
	if !known {
		n, known = o.Stats.sum()
	}
	if !known && o.Type == "" {
		n, known = o.counts.sum()
	}
	if known {
		s.setTotal(n)
	}
	if o.Type != "" && o.Type != "result" {
		return
	}
	failed := o.IsError || strings.HasPrefix(o.Subtype, "error") || o.TerminalReason == "prompt_too_long" ||
		o.Status == "error" || o.Error.Type != "" || o.Error.Message != ""
	_, stats := o.Stats.sum()
	if o.Type == "" && !failed && o.Response == "" && o.Result == "" && !stats {
		s.ended = s.ended && !known // a command that tells of its use alone may go on
		return
	}
	s.ended, s.failed = true, failed
	switch {
	case o.Result != "":
		s.setAnswer(o.Result)
	case o.Response != "":
		s.setAnswer(o.Response)
	case failed && o.Error.Message != "":
		s.setAnswer(o.Error.Message)
	case failed && len(o.Errors) > 0:
		s.setAnswer(strings.Join(o.Errors, "; "))
	}
}

// message counts a message, of which the last word is the highest.
func (s *Stream) addMessage(id string, n int64) {
	s.counted = true
	if id == "" || len(id) > 200 || len(s.messages) >= maxMessages {
		s.sum = Add(s.sum, n)
		return
	}
	if s.messages == nil {
		s.messages = make(map[string]int64)
	}
	if was := s.messages[id]; n > was {
		s.sum = Add(s.sum, n-was)
		s.messages[id] = n
	}
}

// all notes what a command says of all of it: the last word is the one that counts.
func (s *Stream) setTotal(n int64) { s.counted, s.total = true, n }

func (s *Stream) setAnswer(text string) {
	if strings.TrimSpace(text) != "" {
		s.answer = lastPart(text)
	}
}

// lastPart returns the last maxText bytes of a text.
func lastPart(text string) string {
	if over := len(text) - maxText; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}

// Add is the sum of tokens, without overflow; what is negative is nothing.
func Add(a, b int64) int64 {
	a, b = max(0, a), max(0, b)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
