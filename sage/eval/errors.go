package eval

import (
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/sage/source"
)

// ErrorKind classifies an error: ErrorKind of the language.
type ErrorKind uint8

// The kinds of errors.
const (
	Llm      ErrorKind = iota // a model did not answer, or not in the shape that was asked for
	Agent                     // an agent that was awaited, sent to or summoned
	Runtime                   // the program itself: an index, a division, a limit
	Tool                      // a tool
	User                      // fail
	Protocol                  // a message that a protocol does not provide for
	Network                   // a connection
	Timeout                   // something took longer than it may
)

var kindNames = [...]string{"Llm", "Agent", "Runtime", "Tool", "User", "Protocol", "Network", "Timeout"}

// String is the kind as a program writes it.
func (k ErrorKind) String() string { return kindNames[k] }

var errorKindVariants = func() (kinds [len(kindNames)]*variantKind) {
	for i, name := range kindNames {
		kinds[i] = newVariantKind(name, i, 0)
	}
	return kinds
}()

// Error is an error of a program, which it can catch.
type Error struct {
	Kind    ErrorKind
	Message string
	Span    source.Span // where it happened; nowhere if no place did it
	Agent   string      // the path of the agent in which it happened
	Value   Value       // what was failed with, if that was not text
	Err     error       // why, if something else than the program failed
}

// Error is the place and the message.
func (e *Error) Error() string {
	if !e.Span.Valid() {
		return e.Message
	}
	return e.Span.Position().String() + ": " + e.Message
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// LimitError says that an agent wanted more than it may have. It is wrapped by
// an Error, and can be caught like any other.
type LimitError struct {
	Agent string // its path
	Limit string // what is limited: "calls", "memory", "program", "messages", "agents"
	Max   int64
}

// Error names the agent and the limit.
func (e *LimitError) Error() string {
	switch e.Limit {
	case "calls":
		return fmt.Sprintf("%s: calls are nested deeper than the limit of %d; is there a recursion without an end?",
			e.Agent, e.Max)
	case "memory":
		return fmt.Sprintf("%s: more memory is in use than the limit of %d bytes", e.Agent, e.Max)
	case "program":
		return fmt.Sprintf("%s: there is no memory left: the agents of the program use the limit of %d bytes together",
			e.Agent, e.Max)
	case "messages":
		return fmt.Sprintf("%s: its mailbox is full: %d messages wait there, which is the limit", e.Agent, e.Max)
	}
	return fmt.Sprintf("%s: the limit of %d %s is reached", e.Agent, e.Max, e.Limit)
}

// errStopped: the agent was asked to stop. No program can catch it.
var errStopped = errors.New("the agent was stopped")

// thrown carries an error while it unwinds the stack.
type thrown struct{ err *Error }

// leave carries a return, break, continue or yield that stands inside
// of an expression, as they then have to unwind the stack, too.
type leave struct {
	how   outcome
	frame *frame
}

func (m *machine) throw(kind ErrorKind, format string, args ...any) {
	m.raise(&Error{Kind: kind, Message: fmt.Sprintf(format, args...)})
}

func (m *machine) throwLimit(limit string, max int64) {
	err := &LimitError{Agent: m.path(), Limit: limit, Max: max}
	m.raise(&Error{Kind: Runtime, Message: err.Error(), Err: err})
}

// throwError is for what is not the program's own fault. What fails because the
// agent is asked to stop is no error of it.
func (m *machine) throwError(kind ErrorKind, err error) {
	if m.ctx.Err() != nil {
		m.halt()
	}
	m.checkStop()
	m.raise(&Error{Kind: kind, Message: err.Error(), Err: err})
}

func (m *machine) raise(err *Error) {
	if !err.Span.Valid() {
		err.Span = *m.here
	}
	if err.Agent == "" {
		err.Agent = m.path()
	}
	panic(&thrown{err})
}
