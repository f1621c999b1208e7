// Package agentcli parses the output of the command lines of language models: the tokens that they
// have used, whether they have failed, and their answer. It supports the JSON of claude (json,
// stream-json), codex (exec --json), gemini (json, stream-json) and opencode (json), and of any
// command that prints an object with a usage. It starts no process and reads no file.
//
// Only structured fields count, never words. Other text and unknown kinds of objects are ignored,
// since the formats grow.
//
// # Tokens
//
// Tokens are the sum of input and output. Input that was read from a cache costs next to nothing and
// is not counted, but input that was written to a cache is. Some command lines report each message,
// others only a total at the end. A total replaces the sum of the messages unless it is less, since a
// command line that has crashed may report zeros.
package agentcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
)

// Report is what a command has reported about itself, apart from its exit code.
type Report struct {
	Tokens int64  // input and output
	Known  bool   // it has reported its tokens
	Failed bool   // it has reported a failure, whatever its exit code
	Text   string // its answer; empty if it has not marked one
	// Ended is set if the command has reported its end: it will use no more tokens.
	Ended bool
}

// Bounds of the memory that a stream uses.
const (
	maxObject   = 16 << 20 // bytes of an object; a longer one is ignored
	maxText     = 1 << 20  // bytes of an answer, whose end is kept
	maxMessages = 100_000  // messages that are told apart
)

// Stream parses the output of one call of a command as it is written. The zero value is ready to use.
// A Stream is not safe for concurrent use.
type Stream struct {
	line    []byte // the line that has not ended yet
	skip    bool   // the rest of the line is skipped, since it is too long
	block   []byte // the lines so far of an object with several lines
	depth   int    // the number of open braces in block
	counted bool   // tokens were reported

	messages map[string]int64 // tokens by message, which may be reported several times
	sum      int64            // tokens of messages, and of steps, which are reported once
	total    int64            // the total that the command has reported

	failed, ended bool
	answer        string
}

// Write parses more output. It never fails.
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

// Close ends the last line. It never fails.
func (s *Stream) Close() error {
	if !s.skip {
		s.read(s.line)
	}
	s.line, s.skip = nil, false
	s.drop()
	return nil
}

// Report returns what the command has reported so far, in lines that have ended.
func (s *Stream) Report() Report {
	return Report{Tokens: max(s.sum, s.total), Known: s.counted, Failed: s.failed, Ended: s.ended,
		Text: strings.TrimSpace(s.answer)}
}

// read parses a line: an object, a part of one, or other text.
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
		s.drop() // the object before never ended: its lines would be indented
	}
	depth, whole := countBraces(line)
	switch {
	case !whole: // the line ends in a string
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

// countBraces returns the number of braces that a line leaves open. whole is false if the line ends
// in a string, which no line of JSON does.
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

// object parses an object that a command has printed.
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
	case "error": // opencode; the other command lines continue after one
		s.failed = s.failed || o.Session != ""
	default:
		s.result(&o)
	}
}

// result handles the final report of a call.
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
		s.ended = s.ended && !known // a command that reports only its tokens may continue
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

// addMessage counts a message. Of several reports of a message the highest counts.
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

// setTotal records the total of a command. The last total counts.
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

// Add adds tokens without overflow. Negative numbers count as 0.
func Add(a, b int64) int64 {
	a, b = max(0, a), max(0, b)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
