package terminal

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Modes passes output of an agent to a terminal and tracks the modes that it sets, such as the
// alternate screen, the mouse, a hidden cursor and bracketed paste. Restore resets them.
type Modes struct {
	W     io.Writer // the terminal
	state uint8
	text  []byte       // parameters of the current sequence
	set   map[int]bool // last value of each private mode
	drawn bool         // anything was written
}

// States of the parser of control sequences.
const (
	inText uint8 = iota
	afterEscape
	inSequence
)

// maxSequence is longer than any sequence that sets modes, in bytes.
const maxSequence = 64

// maxMode is greater than the number of any private mode.
const maxMode = 9999

// onByDefault reports whether a private mode is on after a reset: the cursor and line wrapping. All
// others are off.
func onByDefault(mode int) bool { return mode == 25 || mode == 7 }

// Write implements io.Writer.
func (m *Modes) Write(p []byte) (int, error) {
	m.drawn = m.drawn || len(p) > 0
	for _, c := range p {
		m.next(c)
	}
	return m.W.Write(p)
}

func (m *Modes) next(c byte) {
	switch {
	case c == 0x1b:
		m.state = afterEscape
	case m.state == afterEscape && c == '[':
		m.state, m.text = inSequence, m.text[:0]
	case m.state == afterEscape:
		m.state = inText
	case m.state == inSequence && c >= 0x40 && c <= 0x7e:
		m.state = inText
		m.sequence(string(m.text), c)
	case m.state == inSequence:
		if m.text = append(m.text, c); len(m.text) > maxSequence {
			m.state = inText
		}
	}
}

// sequence records the modes of CSI ? n ; n ... h or l.
func (m *Modes) sequence(text string, final byte) {
	numbers, private := strings.CutPrefix(text, "?")
	if !private || final != 'h' && final != 'l' {
		return
	}
	for number := range strings.SplitSeq(numbers, ";") {
		mode, err := strconv.Atoi(number)
		if err != nil || mode <= 0 || mode > maxMode {
			continue
		}
		if m.set == nil {
			m.set = map[int]bool{}
		}
		m.set[mode] = final == 'h'
	}
}

// Restore resets the modes that were set, and always the text attributes, the keypad and the
// character set.
func (m *Modes) Restore() {
	if !m.drawn {
		return
	}
	var b strings.Builder
	for _, mode := range slices.Sorted(maps.Keys(m.set)) {
		switch on := m.set[mode]; {
		case on && !onByDefault(mode):
			fmt.Fprintf(&b, "\x1b[?%dl", mode)
		case !on && onByDefault(mode):
			fmt.Fprintf(&b, "\x1b[?%dh", mode)
		}
	}
	b.WriteString("\x1b[0m\x1b7\x1b[r\x1b8\x1b>\x1b(B")
	io.WriteString(m.W, b.String())
	m.set, m.drawn = nil, false
}
