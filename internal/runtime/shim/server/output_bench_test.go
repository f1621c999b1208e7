package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// startProgram starts a program whose output goes to a log, as that of an agent. heard, if not nil,
// is called for each read after that is in the log.
func startProgram(b *testing.B, terminal bool, heard func(), argv ...string) *proc.Process {
	b.Helper()
	o := &output{log: logfile.NewWriter(filepath.Join(b.TempDir(), logfile.Name))}
	out := o.sinks(&incarnation{number: 1, terminal: terminal}, nil)
	if heard != nil {
		logged := out.Lines
		out.Lines = func(s proc.Stream, text []byte) {
			logged(s, text)
			heard()
		}
	}
	cmd := proc.Command{Argv: argv, Env: os.Environ(), Input: heard != nil}
	if terminal {
		cmd.Terminal = &proc.DefaultSize
	}
	p, err := proc.Start(cmd, out)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		p.Kill()
		<-p.Drained()
	})
	return p
}

// BenchmarkOutput measures how fast the output of a program gets into the log of its slot. Lines of
// 0 bytes are output without newlines.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20 // bytes
	for _, c := range []struct {
		line     int
		terminal bool
	}{{10, false}, {100, false}, {1000, false}, {0, false}, {100, true}} {
		name := fmt.Sprintf("line=%d", c.line)
		if c.terminal {
			name += ",terminal"
		}
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as in a shim
			text := bytes.Repeat([]byte("x"), size)
			for i := c.line; i > 0 && i <= size; i += c.line {
				text[i-1] = '\n'
			}
			file := filepath.Join(b.TempDir(), "text")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			for b.Loop() {
				<-startProgram(b, c.terminal, nil, "cat", file).Drained()
			}
		})
	}
}

// BenchmarkLineNextToFloods measures the time from a write to a program, which repeats it, until the
// line is in the log, while other programs of the same process write as much as they can.
func BenchmarkLineNextToFloods(b *testing.B) {
	for _, floods := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("floods=%d", floods), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for range floods {
				startProgram(b, false, nil, "yes", "a line that is written again and again")
			}
			heard := make(chan struct{}, 1)
			p := startProgram(b, false, func() { heard <- struct{}{} }, "cat")
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				if _, err := p.Write([]byte("line\n")); err != nil {
					b.Fatal(err)
				}
				<-heard
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
