package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The document of a night is as in testdata. Times are shown in the local zone.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	got := New(night()).Markdown()
	want, err := os.ReadFile(filepath.Join("testdata", "night.md"))
	if err != nil {
		t.Fatal(err)
	}
	g := night()
	expanded := strings.NewReplacer("SINCE", stamp(g.Since), "UNTIL", stamp(g.Now),
		"LATER", stamp(*g.Status.Attention[0].NextAt)).Replace(string(want))
	if got != expanded {
		t.Errorf("it is\n%s\nwant\n%s", got, expanded)
	}
}

// outside removes the code spans from a line as CommonMark does (6.1): a run of backticks begins one
// if a run of the same length follows, and otherwise stands for itself.
func outside(line string) (rest string, spans []string) {
	runAt := func(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }
	for line != "" {
		n := runAt(line)
		if n == 0 {
			i := strings.IndexByte(line, '`')
			if i < 0 {
				i = len(line)
			}
			rest, line = rest+line[:i], line[i:]
			continue
		}
		end := -1
		for at := n; at < len(line); {
			if m := runAt(line[at:]); m == n {
				end = at
				break
			} else {
				at += max(m, 1)
			}
		}
		if end < 0 {
			rest, line = rest+line[:n], line[n:]
			continue
		}
		span := line[n:end]
		if strings.HasPrefix(span, " ") && strings.HasSuffix(span, " ") && strings.Trim(span, " ") != "" {
			span = span[1 : len(span)-1]
		}
		spans = append(spans, span)
		line = line[end+n:]
	}
	return rest, spans
}

// Whatever a text says, it is one code span, with nothing of it outside, and is shown as it is.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"", "a", "`", "``a`", "a`", " a ", "![x](http://e)", "@all <b> #1\n# x",
		"` |", "a\\`b", " ", "```sh"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = text(s)
		span := code(s)
		if s == "" {
			if span != "" {
				t.Errorf("%q", span)
			}
			return
		}
		rest, spans := outside("- " + span + " and " + span)
		if rest != "-  and " || len(spans) != 2 || spans[0] != s || spans[1] != s {
			t.Errorf("%q is %q: outside %q, spans %q", s, span, rest, spans)
		}
	})
}

// No text of an agent, a person or a command line is outside of code spans.
func TestMarkdownIsInert(t *testing.T) {
	t.Parallel()
	const evil = "``` @all <img src=x> [a](http://evil) #1 http://evil `|` **x**"
	g := night()
	g.Status.Project = evil
	for i := range g.Status.Attention {
		a := &g.Status.Attention[i]
		a.Path, a.Reason, a.Command = evil, evil, evil
	}
	for i := range g.Questions {
		g.Questions[i].Text, g.Questions[i].From = evil, evil
	}
	for i := range g.Closed {
		g.Closed[i].Title, g.Closed[i].ClosedBy, g.Closed[i].Reason = evil, evil, evil
	}
	for i := range g.Waiting {
		g.Waiting[i].Title, g.Waiting[i].Status = evil, evil
		if c := g.Waiting[i].Condition; c != nil {
			c.What = evil
		}
	}
	g.Tried[0].Title, g.Parked[0].Title = evil, evil
	for _, all := range g.Attempts {
		all[0].By, all[0].Outcome.Kind = evil, evil
		if c := all[0].Outcome.Context; c != nil {
			c.Obstacle.Description, c.Recommendation = evil, evil
		}
	}
	g.Cost.Rows[0].Name, g.Cost.Since = evil, evil
	for _, a := range g.Runs.agents {
		a.Path, a.LastFailure = evil, text(evil)
	}
	for line := range strings.Lines(New(g).Markdown()) {
		rest, _ := outside(strings.TrimSuffix(line, "\n"))
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "# "), "## ")
		if strings.ContainsAny(rest, "`@<[]!|*_\\#&") || strings.Contains(rest, "evil") {
			t.Errorf("%q", line)
		}
	}
}
