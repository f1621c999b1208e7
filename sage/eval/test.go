package eval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/llm"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/supervisor"
)

// DefaultTestTimeout is the timeout of a test unless the project sets another one.
const DefaultTestTimeout = 10 * time.Second

// TestResult is the result of a test.
type TestResult struct {
	Name     string
	Span     source.Span // where the test is declared
	Err      error       // nil if the test passed
	Output   string      // what the test printed
	Duration time.Duration
}

// mocks replace models and tools in one test. Answers are given in the order of their declaration.
// The last answer of a tool is repeated.
type mocks struct {
	script llm.Script
	mu     sync.Mutex
	tools  map[string][]mocked
}

type mocked struct {
	value Value
	err   *Error
}

func (m *mocks) answer(name string) (Value, *Error, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	queue := m.tools[name]
	if len(queue) == 0 {
		return Value{}, nil, false
	}
	if len(queue) > 1 {
		m.tools[name] = queue[1:]
	}
	return queue[0].value, queue[0].err, true
}

// Test runs the test with this index in Info.Tests, with its own beliefs, mocks and mailbox.
// Agents that it summons end with it. A timeout of zero means DefaultTestTimeout. Models and tools
// have to be mocked; they are never used. The file functions of the library do access files.
func (p *Program) Test(ctx context.Context, index int, o Options, timeout time.Duration) TestResult {
	decl := p.info.Tests[index]
	result := TestResult{Name: decl.Name.Value, Span: decl.Span}
	if timeout <= 0 {
		timeout = DefaultTestTimeout
	}
	var out strings.Builder
	o.Beliefs, o.Output = host.NewMemory(), host.NewOutput(&out, &out)
	in := p.New(o)
	defer in.Close()
	in.mocks = &mocks{tools: map[string][]mocked{}}

	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	code := &agentCode{name: "test"}
	code.handlers[syntax.EventStart] = p.tests[index]
	box := &mailbox{max: in.o.Limits.Messages}
	a := &agent{path: "test", incarnation: 1, code: code, in: in, box: box, handle: newHandle("test", box)}
	err := a.runIncarnation(ctx, nil)
	if errors.Is(err, supervisor.ErrShutdown) {
		err = fmt.Errorf("it took longer than %v", timeout)
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			err = cause
		}
	}
	result.Err, result.Duration, result.Output = err, time.Since(begin), out.String()
	return result
}

// mock compiles the statement mock.
func (m *compiler) mock(x *syntax.MockStmt) stmt {
	slot, at := m.slot(), spanOf(x)
	value := m.into(x.Value, sink{kind: toSlot, slot: slot})
	name := ""
	if x.Tool != nil {
		name = x.Tool.Name + "." + x.Func.Name
	}
	return func(f *frame) outcome {
		err := f.m.protect(f, func() { value(f) })
		mocks := f.m.in.mocks
		if mocks == nil {
			f.m.here = at
			f.m.throw(Runtime, "mock can be used only in tests")
		}
		if name != "" {
			mocks.mu.Lock()
			defer mocks.mu.Unlock()
			mocks.tools[name] = append(mocks.tools[name], mocked{f.s[slot], err})
			return normal
		}
		if err != nil {
			mocks.script.Add(llm.ScriptedAnswer{Err: errors.New(err.Message)})
			return normal
		}
		text, is := f.s[slot].ref.(string)
		if !is {
			text = string(encode(f.s[slot]))
		}
		mocks.script.Add(llm.ScriptedAnswer{Text: text})
		return normal
	}
}
