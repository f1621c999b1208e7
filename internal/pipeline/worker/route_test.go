package worker

import "testing"

// Evidence of workers is trusted, and that of no other agent.
func TestIsWorker(t *testing.T) {
	a := Assignment{Workers: []string{"p/coder", "p/codex"}}
	for at, want := range map[string]bool{
		"p/codex": true, "p/coder/coder-7": true, "p/plain": false, "p/plain/plain-1": false, "p": false, "": false,
		"p/coder-1": false, "q/coder": false,
	} {
		if a.isWorker(at) != want {
			t.Errorf("%q: expected %v", at, want)
		}
	}
}
