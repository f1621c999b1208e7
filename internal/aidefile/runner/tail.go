package runner

import (
	"strings"
	"sync"
)

// maxTail bounds the text that is kept for a summary, in bytes.
const maxTail = 1 << 20

// tail keeps the end of what a call writes to its standard output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*maxTail {
		t.text = append(t.text[:0], t.text[len(t.text)-maxTail:]...)
	}
}

// reset drops what was kept, for the next call.
func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "\uFFFD")
}

// answer returns the text that the last call reports as its answer, or else all its text.
func (r *Runner) answer() string {
	if r.current == nil {
		return ""
	}
	if text := r.current.Report().Text; text != "" {
		return text
	}
	return r.tail.String()
}
