package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Peek ends although the log grows faster than it is read, and returns no more lines than were asked for.
func TestPeekOfGrowing(t *testing.T) {
	file := filepath.Join(t.TempDir(), Name)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("y\n", 64<<10))
	if _, err := f.Write(block); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		defer f.Close()
		for n := 0; n < 1<<29; n += len(block) { // a disk is not endless
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.Write(block); err != nil {
				t.Error(err)
				return
			}
		}
	})
	begin := time.Now()
	for range 5 {
		lines, err := Peek(file, 3)
		if err != nil || len(lines) != 3 || lines[0] != "y" {
			t.Fatalf("%.60q, %v", lines, err)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
