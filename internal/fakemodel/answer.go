package fakemodel

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Answer is the text of a normal answer.
const Answer = "The answer is forty-two. <aide-summary>Nothing was wrong.</aide-summary>"

// Tools of coding agents that are treated in their own way.
const (
	toolLocalShell = "local_shell"
	toolSearch     = "ToolSearch"
)

// A prompt holds what a request asks of the model, in terms that the APIs share.
type prompt struct {
	api          string
	model        string
	stream       bool
	tools        toolset
	offersTools  bool
	schema       any // of the wanted JSON, or nil
	turns        int
	answered     bool // it ends with the result of a tool
	wantsUsage   bool // of a stream of Chat Completions
	conversation any
	body         []byte
}

// kind returns KindMain or KindSide.
func (p *prompt) kind() string {
	if p.offersTools && p.schema == nil {
		return KindMain
	}
	return KindSide
}

// A turn is a request that is being answered.
type turn struct {
	prompt
	step  step
	usage Usage
	id    int // a number for the ids of the answer
	tag   string
	now   time.Time
	query map[string][]string
}

// unixIn returns the Unix time in so many seconds.
func (t *turn) unixIn(seconds int) int64 { return t.now.Unix() + int64(seconds) }

// said holds an answer of the model: a text, or the call of a tool.
type said struct {
	text  string
	tool  string // empty if it is a text
	input object
}

// isCall reports whether a tool is called.
func (s said) isCall() bool { return s.tool != "" }

// stop returns the word of an API for the reason why the model has stopped.
func (t *turn) stop(s said, end, call, length, refusal string) string {
	switch {
	case t.step.name == stepMaxTokens:
		return length
	case t.step.name == stepRefusal:
		return refusal
	case s.isCall():
		return call
	}
	return end
}

// say decides the answer of the model.
func (t *turn) say() said {
	switch {
	case t.schema != nil:
		return said{text: encodeLines(instance(t.schema, ""))}
	case t.kind() == KindSide:
		return said{text: "A title"}
	}
	switch t.step.name {
	case stepTool:
		if !t.answered {
			return t.runShell(orElse(t.step.arg, "echo fake-tool-ran"))
		}
	case stepLoop:
		return t.runShell(orElse(t.step.arg, "echo again"))
	case stepCall:
		if !called(t.conversation, t.step.tool) {
			return t.callTool()
		}
	case stepJSON:
		return said{text: t.step.arg}
	case stepRefusal:
		return said{text: "I cannot help with that."}
	}
	return said{text: Answer}
}

// runShell calls the tool for shell commands, if there is one.
func (t *turn) runShell(command string) said {
	tool := t.tools.shell()
	if tool == "" {
		return said{text: Answer}
	}
	return said{tool: tool, input: shellInput(t.tools.schemas[tool], command)}
}

// callTool calls the tool of the step, or searches for it once.
func (t *turn) callTool() said {
	if tool := t.tools.find(t.step.tool); tool != "" {
		return said{tool: tool, input: t.step.input}
	}
	if t.tools.has(toolSearch) && !called(t.conversation, toolSearch) {
		name := fullName(t.body, t.step.tool)
		return said{tool: toolSearch, input: object{"query": "select:" + name, "max_results": 5}}
	}
	return said{text: fmt.Sprintf("There is no such tool as %s among %s",
		t.step.arg, strings.Join(t.tools.names, ", "))}
}

// words returns the parts in which a text is streamed, and how many of them take a second each.
func (t *turn) words(text string) (all []string, slow int) {
	if t.step.name == stepSlow {
		slow = int(t.step.number)
		for i := range slow {
			all = append(all, fmt.Sprintf("word%d ", i))
		}
	}
	parts := regexp.MustCompile(`\S+\s*`).FindAllString(text, -1)
	if t.step.halves() && len(parts) > 1 {
		parts = parts[:len(parts)/2]
	}
	return append(all, parts...), slow
}
