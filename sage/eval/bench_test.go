package eval_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// BenchmarkStart measures the time from the text of a program to the first line of on start.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		if _, err := run(b, `agent A { on start { print("x"); } } supervisor S { strategy: OneForOne children { A { restart: Temporary } } } run S;`, eval.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRestart measures a restart of an agent that fails at once, without persistence.
func BenchmarkRestart(b *testing.B) {
	in := compile(b, `agent A { n: Int on start { fail "x"; } on error(e) { } }
		supervisor S { strategy: OneForOne children { A { restart: Permanent n: 1 } } } run S;`).New(eval.Options{Limit: supervisor.Escalating(b.N, time.Hour)})
	defer in.Close()
	b.ReportAllocs()
	b.ResetTimer()
	_ = in.Run(context.Background())
}

// Ten thousand agents that wait for messages take less than 10 kB of memory each.
func TestTenThousandAgents(t *testing.T) {
	const n = 10_000
	var children strings.Builder
	for range n {
		children.WriteString("A { k: 1 }\n")
	}
	p := compile(t, `agent A receives Int { k: Int on start { print(self.k); } on message(n: Int) { print(n); } }
		supervisor S { strategy: OneForOne children { `+children.String()+` } } run S;`)
	out := output{lines: make(chan string, n)}
	resident := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapInuse + s.StackInuse
	}
	before := resident()
	in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
	defer in.Close()
	s := tree(t, in)
	for range n {
		<-out.lines
	}
	used := resident() - before
	t.Logf("%d agents take %.1f MB, %d bytes each", n, float64(used)/1e6, used/n)
	if used > 100e6 && !raced {
		t.Errorf("%d agents take %.1f MB, want less than 100", n, float64(used)/1e6)
	}
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}
