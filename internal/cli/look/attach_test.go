package look

import (
	"io"
	"testing"
)

func TestDetachKeys(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ls\r":          "ls\r",
		"a\x1db":        "a!",
		"a\x10\x11b":    "a!",
		"a\x10b\x11":    "a\x10b\x11",
		"\x10\x10\x11c": "\x10!",
		"\x10\x10x":     "\x10\x10x",
		"\x10":          "",
		"\x1d":          "!",
	} {
		for _, chunk := range []int{1, 100} {
			d := &detachReader{r: &chunks{in, chunk}, left: make(chan struct{})}
			out, err := io.ReadAll(readerOnly{d})
			got := string(out)
			select {
			case <-d.left:
				got += "!"
			default:
			}
			if got != want || err != nil {
				t.Errorf("%q by %d: %q, %v, want %q", in, chunk, got, err, want)
			}
		}
	}
}

// chunks is a reader that returns at most n bytes at a time.
type chunks struct {
	text string
	n    int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.text)
	c.text = c.text[n:]
	return n, nil
}

type readerOnly struct{ io.Reader }
