package call

import (
	"strings"
	"sync"
)

// MaxTail bounds the text that a Tail returns for sure, in bytes; it keeps at most twice as much.
const MaxTail = 1 << 20

// Tail keeps the end of what a call writes to its standard output. Its methods may be called at any time. The zero
// value is empty and ready to use.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write adds more of the output. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*MaxTail {
		t.text = append(t.text[:0], t.text[len(t.text)-MaxTail:]...)
	}
	return len(p), nil
}

// Reset drops what was kept, for the next call.
func (t *Tail) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = nil
}

// String returns what is kept, with U+FFFD for what is not UTF-8.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "\uFFFD")
}
