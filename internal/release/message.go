package release

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Trailers of the commits of attempts.
const (
	taskTrailer    = "Coppice-Task"
	attemptTrailer = "Coppice-Attempt"
)

// Bounds of a commit message, in bytes.
const (
	maxSubject = 72
	maxBody    = 8 << 10
	maxTask    = 500
)

// message returns the message of a commit. Subject and body may be any text. The trailers are a paragraph
// of their own at the end, so git takes nothing else for a trailer.
func (c *Commit) message() (string, error) {
	switch {
	case c.Task == "":
		return "", errors.New("the commit has no task")
	case len(c.Task) > maxTask:
		return "", fmt.Errorf("the id of the task has %d bytes, the limit is %d", len(c.Task), maxTask)
	case plaintext.OneLine(c.Task, maxTask) != c.Task:
		return "", fmt.Errorf("the id of the task, %q, is not one line of plain text", plaintext.OneLine(c.Task, 100))
	case c.Attempt < 1:
		return "", fmt.Errorf("the number of the attempt is %d, the first one is 1", c.Attempt)
	}
	text := subject(c.Subject)
	if text == "" {
		text = subject(fmt.Sprintf("%s, attempt %d", c.Task, c.Attempt))
	}
	if text == "" {
		text = "Change"
	}
	if body := body(c.Body); body != "" {
		text += "\n\n" + body
	}
	return fmt.Sprintf("%s\n\n%s: %s\n%s: %d\n", text, taskTrailer, c.Task, attemptTrailer, c.Attempt), nil
}

// subject makes a text the first line of a message. A "#" in front would make it a comment.
func subject(text string) string {
	return plaintext.OneLine(strings.TrimLeft(plaintext.OneLine(text, 10*maxSubject), "# "), maxSubject)
}

// special matches lines that git and its tools take for something else than text: trailers, comments, and
// the end of the message in a patch.
var special = lazyregexp.New(`^(#|---|diff |Index: |[[:alnum:]-]+[ \t]*:|\(cherry picked from )`)

// body makes a text the body of a message. Special lines are indented.
func body(text string) string {
	text, cut := truncate(text, maxBody)
	var b strings.Builder
	blank := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(plaintext.Line(strings.TrimRight(line, "\r\n")), " \t")
		if line == "" {
			blank++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
			if blank > 0 {
				b.WriteString("\n")
			}
		}
		blank = 0
		if special().MatchString(line) {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	if cut {
		b.WriteString("\n…")
	}
	return b.String()
}

// truncate returns at most limit bytes of a text, and whether that is not all of it. Half a character at the
// end is removed later, as it is not valid UTF-8.
func truncate(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	return text[:limit], true
}
