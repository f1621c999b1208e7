package eval

import (
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/sage/source"
)

// ErrorKind is the kind of an error: the enum ErrorKind of the language.
type ErrorKind uint8

// The kinds of errors.
const (
	Llm      ErrorKind = iota // a model gave no answer, or one of the wrong type
	Agent                     // an agent that was awaited, summoned or sent a message
	Runtime                   // the program itself: an index, a division, a limit
	Tool                      // a tool
	User                      // a fail expression
	Protocol                  // a message that the protocol does not allow
	Network                   // a connection
	Timeout                   // a timeout
)

var kindNames = [...]string{"Llm", "Agent", "Runtime", "Tool", "User", "Protocol", "Network", "Timeout"}

// String returns the kind as a program writes it.
func (k ErrorKind) String() string { return kindNames[k] }

var errorKindVariants = func() (kinds [len(kindNames)]*variantKind) {
	for i, name := range kindNames {
		kinds[i] = newVariantKind(name, i, 0)
	}
	return kinds
}()

// Error is an error that a program can catch.
type Error struct {
	Kind    ErrorKind
	Message string
	Span    source.Span // where it happened; invalid if unknown
	Agent   string      // the path of the agent in which it happened
	Value   Value       // the operand of fail, if that was the cause
	Err     error       // the cause, if it is outside of the program
}

// Error returns the position and the message.
func (e *Error) Error() string {
	if !e.Span.Valid() {
		return e.Message
	}
	return e.Span.Position().String() + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// LimitError means that an agent reached a limit. It is wrapped by an Error and can be caught.
type LimitError struct {
	Agent string // its path
	Limit string // "calls", "memory", "program", "messages" or "agents"
	Max   int64
}

// Error names the agent and the limit.
func (e *LimitError) Error() string {
	switch e.Limit {
	case "calls":
		return fmt.Sprintf("%s: calls are nested deeper than the limit of %d; is there an endless recursion?",
			e.Agent, e.Max)
	case "memory":
		return fmt.Sprintf("%s: more memory is in use than the limit of %d bytes", e.Agent, e.Max)
	case "program":
		return fmt.Sprintf("%s: out of memory: all agents of the program together reached the limit of %d bytes",
			e.Agent, e.Max)
	case "messages":
		return fmt.Sprintf("%s: its mailbox has reached the limit of %d messages", e.Agent, e.Max)
	}
	return fmt.Sprintf("%s: the limit of %d %s is reached", e.Agent, e.Max, e.Limit)
}

// errStopped means that the agent was asked to stop. Programs cannot catch it.
var errStopped = errors.New("the agent was stopped")

// thrown is the panic value that carries an error up the stack.
type thrown struct{ err *Error }

// leave is the panic value of a return, break, continue or yield inside of an expression, which
// has to unwind the stack as well.
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

// throwError is for errors from outside of the program. A failure that is caused by a stop is not
// an error of the program.
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
