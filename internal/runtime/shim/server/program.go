package server

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"

	"github.com/dustin/go-humanize"
)

// Program has agents that run as functions of the shim.
type Program interface {
	// Run runs an incarnation of an agent to its end. It returns soon after the end of ctx.
	Run(ctx context.Context, f *Function) error
	// Memory returns how much memory the process may use in bytes; 0 means any.
	Memory() int64
}

// openProgram opens the program that this process was started for.
func (p *shim) openProgram(open OpenProgram, traced bool) error {
	if open == nil {
		return fmt.Errorf("there are no programs here")
	}
	bundle := os.NewFile(BundleFD, "bundle")
	defer bundle.Close()
	var trace *os.File
	if traced {
		syscall.CloseOnExec(TraceFD)
		trace = os.NewFile(TraceFD, "trace")
	}
	var err error
	if p.program, err = open(bundle, trace); err != nil {
		return fmt.Errorf("opening the program: %w", err)
	}
	if limit := p.program.Memory(); limit > 0 {
		watchMemory(limit, func() {
			p.fail(fmt.Errorf("its program uses more than its %s of memory", humanize.IBytes(uint64(limit))), lastTime)
		})
	}
	return nil
}

// watchMemory calls exceeded, once, when the memory of this process is over the limit in spite of
// garbage collection, which works ever harder towards it. It looks after each collection, so it
// costs nothing while little is allocated.
func watchMemory(limit int64, exceeded func()) {
	debug.SetMemoryLimit(limit)
	const part = 9 // of ten parts; the collector needs the rest
	var look func()
	look = func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 && int64(live[0].Value.Uint64()) > limit/10*part {
			go exceeded()
			return
		}
		next := &struct{ self *int }{new(int)} // unreachable at once, so the next collection finds it
		runtime.AddCleanup(next, func(struct{}) { look() }, struct{}{})
	}
	look()
}
