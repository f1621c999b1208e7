package exectest

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestWriteWhileOthersStart(t *testing.T) {
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					exec.Command("/bin/true").Run()
				}
			}
		})
	}
	for range 300 {
		path := filepath.Join(t.TempDir(), "program")
		Write(t, path, "#!/bin/sh\n")
		if err := exec.Command(path).Run(); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	others.Wait()
}
