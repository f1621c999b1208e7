package attempt

import (
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/task"
)

// Pauses between two looks at an open pull request.
const (
	firstLook = time.Minute
	lastLook  = 4 * time.Hour
)

// LookAgain returns the pause before the next look at a pull request that is open for some time: as long again, from
// 1 minute to 4 hours.
func LookAgain(open time.Duration) time.Duration { return min(max(open, firstLook), lastLook) }

// Feedback reports whether a person has said something about a task since an attempt began, other than that it is
// approved. Agents cannot comment as people.
func Feedback(d task.Detail, since time.Time) bool {
	for _, c := range d.Comments {
		if byPerson(c) && c.At.After(since) && !approves(c.Text) {
			return true
		}
	}
	return false
}

// byPerson reports whether a person has written a comment.
func byPerson(c task.Comment) bool { return c.Incarnation == 0 && c.By != controller }

// approves reports whether a text approves a change.
func approves(text string) bool {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ":")
	return word == Approve || word == Approve+"d"
}

// maxBody bounds the text of a pull request, in bytes. GitHub takes 64 KiB.
const maxBody = 32 << 10

// RequestBody returns the text of a pull request, given that of its commit and what a reviewer should look at. Both may
// be those of a model. They are quoted as code, so that they mention no one, close no issue and load no image.
func RequestBody(text string, looks []string) string {
	body := code(text)
	if len(looks) > 0 {
		body += "\nLook at:\n\n" + code(List(looks))
	}
	return body
}

// code returns a text as a block of code in Markdown.
func code(text string) string {
	text = shorten(text, maxBody)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence + "\n"
}
