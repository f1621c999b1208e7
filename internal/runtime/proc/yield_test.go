package proc

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Goroutines that can always continue let I/O of others through, each time and not after 10 ms.
func TestYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var turns atomic.Int64
	var ended atomic.Bool
	var floods sync.WaitGroup
	for range 4 {
		floods.Go(func() {
			var y yielder
			defer y.close()
			for !ended.Load() {
				turns.Add(1)
				y.yield()
			}
		})
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for b := make([]byte, 1); ; heard <- struct{}{} {
			if _, err := r.Read(b); err != nil {
				return
			}
		}
	}()
	const rounds = 200
	begin := turns.Load()
	for range rounds {
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		<-heard
	}
	if n := (turns.Load() - begin) / rounds; n > 100 {
		t.Errorf("%d turns of the others until something is read, want a few", n)
	}
	ended.Store(true)
	w.Close()
	<-heard
	r.Close()
	floods.Wait()
}
