package attempt

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// Bounds on what a prompt tells of earlier attempts.
const (
	maxAttempts = 5        // of the task
	maxLike     = 5        // of other tasks
	maxHistory  = 12 << 10 // bytes
	maxItem     = 3 << 10  // bytes of one attempt
)

// history writes what has failed before, so that it is not tried again: the last attempts at the task, and the last
// ones at like tasks. What has succeeded is not told, and the same failure only once.
func (f Facts) history(b *strings.Builder) {
	told, left := map[string]bool{}, maxHistory
	own := items(f.Task, maxAttempts, told, &left)
	var like []string
	for _, d := range f.Like {
		if len(like) < maxLike {
			like = append(like, items(d, 1, told, &left)...)
		}
	}
	if len(own) > 0 {
		b.WriteString("\n# What has failed before\n\nEarlier attempts at this task. Do not try again what has " +
			"failed; use what was found.\n\n" + strings.Join(own, "\n"))
	}
	if len(like) > 0 {
		b.WriteString("\n# What has failed in other tasks\n\nThe same may happen here.\n\n" + strings.Join(like, "\n"))
	}
}

// items returns the last attempts at a task that have failed, oldest first. An attempt that ended like a later one is
// left out. told and left are updated.
func items(d task.Detail, most int, told map[string]bool, left *int) []string {
	var all []string
	for i := len(d.Attempts) - 1; i >= 0 && len(all) < most && *left > 0; i-- {
		a := d.Attempts[i]
		key := failure(a.Outcome)
		if key == "" || told[key] {
			continue
		}
		told[key] = true
		text := fmt.Sprintf("## Attempt %d at %s ended as %s\n\n", a.Number, quoteWord(d.Task.ID),
			quoteWord(string(a.Outcome.Kind))) + quote(a.Outcome.Describe(), min(maxItem, *left))
		*left -= len(text)
		all = append(all, text)
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// failure identifies the failure of an attempt: its obstacle, apart from numbers. It is empty if the attempt has not
// failed, or says nothing of the work.
func failure(r outcome.Report) string {
	if r.Context == nil || r.Kind == outcome.Completed || r.Kind == outcome.Decomposed ||
		r.Context.Obstacle.Kind.Outside() {
		return ""
	}
	text := string(r.Context.Obstacle.Kind) + ": " + r.Context.Obstacle.String() + ": " + r.Context.Approach
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, strings.ToLower(text))
}

// quoteWord returns a word of unknown origin in one line.
func quoteWord(text string) string { return strings.ReplaceAll(shorten(text, 200), "\n", " ") }
