package eval_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compile checks and loads a program.
func compile(t testing.TB, text string) *eval.Program {
	t.Helper()
	p, _ := compileWithInfo(t, text)
	return p
}

func compileWithInfo(t testing.TB, text string) (*eval.Program, *check.Info) {
	t.Helper()
	info, diagnostics := check.Program(source.NewFile("main.sg", text), check.Config{Processes: []string{"worker"}})
	if diag.HasErrors(diagnostics) {
		var b strings.Builder
		_ = diag.Write(&b, diagnostics, false)
		t.Fatalf("%s", b.String())
	}
	p, err := eval.Load(info)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p, info
}

// output collects what a program prints and lets a test wait for lines.
type output struct {
	mu    sync.Mutex
	b     strings.Builder
	lines chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.lines != nil {
		o.lines <- strings.TrimSuffix(string(p), "\n")
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// run runs a program to its end.
func run(t testing.TB, text string, o eval.Options) (string, error) {
	t.Helper()
	var out output
	if o.Output == nil {
		o.Output = host.NewOutput(&out, &out)
	}
	in := compile(t, text).New(o)
	defer in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := in.Run(ctx)
	if ctx.Err() != nil {
		t.Fatalf("it did not end: %s", out.String())
	}
	return out.String(), err
}

// prints runs statements in an agent and compares what they print.
func prints(t *testing.T, statements, want string) {
	t.Helper()
	got, err := run(t, "agent Main { on start { "+statements+"\n } }\nrun Main;", eval.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s\nprinted\n%s\nwant\n%s", statements, got, want)
	}
}

// fails runs statements that end with an error.
func fails(t *testing.T, statements, want string) {
	t.Helper()
	got, err := run(t, "agent Main { on start { "+statements+"\n } }\nrun Main;", eval.Options{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\nended with %v, want %q\n%s", statements, err, want, got)
	}
}

// tree starts a program that the test stops.
func tree(t *testing.T, in *eval.Instance) *supervisor.Supervisor {
	t.Helper()
	spec, err := in.Spec()
	if err != nil {
		t.Fatal(err)
	}
	s, err := supervisor.Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var _ io.Writer = (*output)(nil)
