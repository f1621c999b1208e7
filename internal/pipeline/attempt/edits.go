package attempt

import (
	"strings"
	"unicode/utf8"
)

// File is a file that a model sees in its prompt.
type File struct {
	Path string
	Text string
	Note string // says why its text is not there; empty if it is
}

// Bounds of the files in a prompt, in bytes.
const (
	MaxShown    = 64 << 10  // of a file
	maxAllShown = 192 << 10 // of all
)

// editing says how files are changed.
func (f Facts) editing() string {
	if f.ApplyEdits {
		return "You cannot change its files: your answer has the edits, and a program applies them."
	}
	return "Edit its files."
}

// editsText asks for edits in the format that models write best.
const editsText = `
# Your edits

Write each edit as the path of the file on a line of its own, followed by this block, in front of the JSON object:

<<<<<<< SEARCH
some lines of the file, as they are, enough of them that they are there only once
=======
the lines in their place
>>>>>>> REPLACE

A block whose first part is empty makes a new file. Do not repeat a whole file to change a part of it. In what follows,
"| " in front of a line is not a part of the file.
`

// edits shows the files and asks for edits, if the model cannot change files itself.
func (f Facts) edits(b *strings.Builder) {
	if !f.ApplyEdits {
		return
	}
	b.WriteString(editsText)
	left := maxAllShown
	for _, file := range f.Shown {
		b.WriteString("\n" + quoteWord(file.Path) + ":\n")
		switch {
		case file.Note != "":
			b.WriteString("(" + file.Note + ")\n")
		case !utf8.ValidString(file.Text) || strings.ContainsRune(file.Text, 0):
			b.WriteString("(it is no text)\n")
		case len(file.Text) > min(MaxShown, left):
			b.WriteString("(it is too large to be shown)\n")
		case file.Text == "":
			b.WriteString("(it is empty)\n")
		default:
			left -= len(file.Text)
			b.WriteString("| " + strings.ReplaceAll(strings.TrimSuffix(file.Text, "\n"), "\n", "\n| ") + "\n")
		}
	}
}
