package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Markdown returns the report as a document in GitHub Flavored Markdown. All texts that come from
// agents, people and files are code spans, in which nothing is a link, a mention, HTML or a heading.
// There are no tables: a cell can be ended from within a code span.
func (r Report) Markdown() string {
	d := &document{}
	d.line("# Report of " + code(r.Project))
	d.line("")
	d.line(fmt.Sprintf("%s to %s (%s): %s", stamp(r.Since), stamp(r.Until), timespan.Short(r.Until.Sub(r.Since)),
		r.Summary()))

	section(d, "Needs a person", r.Needs, func(n Need) {
		d.item(fmt.Sprintf("%s %s: %s", code(n.Subject), code(n.State), code(n.Text)))
		d.detail("goes on at", stampOf(n.NextAt))
		d.detail("run", code(n.Command))
	})
	section(d, "Completed", r.Completed, d.task)
	section(d, "Cancelled", r.Cancelled, d.task)
	section(d, "Tried and not done", r.Tried, d.task)
	section(d, "Waiting", r.Waiting, func(w Waiting) {
		d.item(fmt.Sprintf("%s %s: %s", code(w.ID), code(w.Title), code(string(w.Status))))
		d.detail("for", code(w.For))
		d.detail("until", stampOf(w.Until))
	})
	if r.Cost.Total.Calls > 0 {
		d.heading("Cost")
		d.line(fmt.Sprintf("%s to %s: %s, %s", code(r.Cost.Since), code(r.Cost.Until), r.Cost.tokens(),
			r.Cost.dollars()))
		d.line("")
		for _, row := range r.Cost.Agents.Shown {
			one := Cost{Total: row}
			d.item(fmt.Sprintf("%s: %s, %s", code(row.Name), one.tokens(), one.dollars()))
		}
		d.more(r.Cost.Agents.More(), false)
	}
	section(d, "Agents", r.Runs.Agents, func(a Agent) {
		d.item(fmt.Sprintf("%s: %s", code(a.Path), a.Count))
		d.detail("last failure", code(a.LastFailure))
	})
	return d.b.String()
}

// String returns the counts in words.
func (c Count) String() string {
	words := fmt.Sprintf("%s starts, %s of them restarts, %s failures", plaintext.Thousands(int64(c.Starts)),
		plaintext.Thousands(int64(c.Restarts)), plaintext.Thousands(int64(c.Failures)))
	if c.Lost > 0 {
		words += fmt.Sprintf(", %s lost", plaintext.Thousands(int64(c.Lost)))
	}
	return words
}

// document collects lines.
type document struct{ b strings.Builder }

func (d *document) line(text string) { d.b.WriteString(text + "\n") }

func (d *document) heading(title string) { d.b.WriteString("\n## " + title + "\n\n") }

func (d *document) item(text string) { d.line("- " + text) }

// detail adds a line below an item, unless the value is empty.
func (d *document) detail(label, value string) {
	if value != "" {
		d.line("  - " + label + ": " + value)
	}
}

func (d *document) more(n int, atLeast bool) {
	if n > 0 {
		d.item("and " + MoreText(n, atLeast))
	}
}

// section adds a list below a heading, unless it is empty.
func section[T any](d *document, title string, l List[T], add func(T)) {
	if l.Total == 0 {
		return
	}
	d.heading(title)
	for _, one := range l.Shown {
		add(one)
	}
	d.more(l.More(), l.AtLeast)
}

func (d *document) task(t Task) {
	d.item(strings.TrimRight(code(t.ID)+" "+code(t.Title), " "))
	d.detail("by", code(t.By))
	d.detail("attempts", t.Tries())
	d.detail("change", code(t.Change.String()))
	if t.Obstacle != "" {
		d.detail("outcome", code(string(t.Outcome)))
		d.detail("obstacle", code(t.Obstacle))
	} else {
		d.detail("reason", code(t.Reason))
	}
	d.detail("next", code(t.Recommendation))
}

// Tries returns the number of attempts at a task and the time that they have taken, such as "2 in
// 5m00s"; empty if there was none.
func (t Task) Tries() string {
	switch {
	case t.Attempts == 0:
		return ""
	case t.Seconds == 0:
		return fmt.Sprint(t.Attempts)
	}
	return fmt.Sprintf("%d in %s", t.Attempts, timespan.Short(time.Duration(t.Seconds*float64(time.Second))))
}

// MoreText returns how many entries of a list are not shown.
func MoreText(n int, atLeast bool) string {
	text := plaintext.Thousands(int64(n)) + " more"
	if atLeast {
		text = "at least " + text
	}
	return text
}

func stamp(at time.Time) string { return at.Local().Format("2006-01-02 15:04") }

func stampOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return stamp(at)
}

// code returns a line of text as a code span; empty for an empty text. The span is delimited by more
// backticks than the text has in a row.
func code(text string) string {
	if text == "" {
		return ""
	}
	run, longest := 0, 0
	for _, c := range text {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	// Blanks keep backticks at the ends apart from the fence. A reader strips one at each end.
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") ||
		strings.HasPrefix(text, " ") && strings.HasSuffix(text, " ") {
		text = " " + text + " "
	}
	return fence + text + fence
}
