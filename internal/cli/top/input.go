package top

import (
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// edited returns a line of text after a key, which edits it at its end. It is not a textinput of bubbles, whose
// clipboard searches PATH whenever coppice starts.
func edited(text string, msg tea.KeyPressMsg) string {
	switch msg.String() {
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(text)
		return text[:len(text)-n]
	case "ctrl+w", "alt+backspace":
		rest := strings.TrimRight(text, " ")
		return rest[:strings.LastIndex(rest, " ")+1]
	case "ctrl+u":
		return ""
	}
	return text + printable(msg.Text)
}

// pasted returns a text that was pasted as one line.
func pasted(text string) string {
	return printable(strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(text))
}

// printable returns the printable part of a text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// cursor is a space in reverse video, which also works without colours.
const cursor = "\x1b[7m \x1b[0m"

// inputLine returns a line in which text is typed. The end of a long text is shown, and then there is no help.
func (c canvas) inputLine(prompt, text, help string) string {
	text = plaintext.Line(text)
	if room := c.width - ansi.StringWidth(prompt) - 1; c.width > 0 && ansi.StringWidth(text) > room {
		text = "…" + ansi.TruncateLeft(text, ansi.StringWidth(text)-max(0, room-1), "")
	}
	return prompt + text + cursor + " " + c.paint.Dim(help)
}
