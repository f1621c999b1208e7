package runner

import (
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// hearing is what a call of the command has printed so far: what it says of
// itself, and the end of the text.
type hearing struct {
	mu     sync.Mutex
	stream agentcli.Stream
	tail   []byte
}

// maxTail bounds the text that is kept, in bytes: that of a summary.
const maxTail = 1 << 20

func (h *hearing) Write(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stream.Write(p)
	h.tail = append(h.tail, p...)
	if len(h.tail) > 2*maxTail {
		h.tail = append(h.tail[:0], h.tail[len(h.tail)-maxTail:]...)
	}
}

// close says that nothing more will come.
func (h *hearing) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stream.Close()
}

func (h *hearing) report() agentcli.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream.Report()
}

// answer is what the command has answered: what it says to be its answer, or else all that it printed.
func (h *hearing) answer() string {
	if h == nil {
		return ""
	}
	if text := h.report().Text; text != "" {
		return text
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(string(h.tail), "\uFFFD")
}
