package attempt

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/task"
)

// With returns what was learned, and what was learned later.
func (r Report) With(later Report) Report {
	r.Obstacle = nil
	r.Discoveries = united(r.Discoveries, later.Discoveries)
	r.Explored = united(r.Explored, later.Explored)
	if later.Recommendation != "" {
		r.Recommendation = shorten(later.Recommendation, maxEndText)
	}
	return r
}

// maxUnited bounds the texts that are kept of each kind.
const maxUnited = 30

// united returns the texts of two lists, each once.
func united(a, b []string) []string {
	all := slices.Clone(a)
	for _, text := range b {
		text = shorten(text, 500)
		if text != "" && len(all) < maxUnited && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// Outline returns the names of the steps.
func (a Answer) Outline() string {
	var names []string
	for _, s := range a.Steps {
		names = append(names, quoteWord(s.Name))
	}
	return List(names)
}

// Add adds what a later call has done.
func (d *Done) Add(later Done) {
	d.Report = d.Report.With(later.Report)
	d.Summary = shorten(d.Summary+"\n"+later.Summary, maxEndText)
	if d.Subject == "" {
		d.Subject = quoteWord(later.Subject)
	}
}

// Approach returns what was done in an attempt that ended in a stage, given notes of it.
func Approach(notes []string, n pipeline.Name) string {
	return shorten(strings.Join(notes, "; "), maxEndText) + "; ended in " + n.String()
}

// file matches what looks like the name of a file in a text: it has a slash or an extension.
var file = lazyregexp.New("[A-Za-z0-9_.-]*[A-Za-z0-9_-](?:/[A-Za-z0-9_.-]+)+|" +
	"[A-Za-z0-9_-]+\\.[a-z][a-z0-9]{0,4}\\b")

// maxFiles bounds the files that are found in a text.
const maxFiles = 100

// Files returns what looks like the names of files in the text of a task. It only helps to choose a mode.
func Files(text string) (all []string) {
	for _, name := range file().FindAllString(text[:min(len(text), maxTaskText)], maxFiles) {
		name = path.Clean(strings.TrimRight(name, "."))
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Approve is the answer of a person who approves a change.
const Approve = "approve"

// Approved reports whether a person has approved the change that the last attempt at a task has left for a review. It
// is what the last comment after that attempt says. Agents cannot comment as people.
func Approved(d task.Detail) bool {
	if len(d.Attempts) == 0 || len(d.Comments) == 0 {
		return false
	}
	c := d.Comments[len(d.Comments)-1]
	return byPerson(c) && c.At.After(d.Attempts[len(d.Attempts)-1].EndedAt) && approves(c.Text)
}

// URL returns the last URL in the output of a command that makes a pull request; empty if there is none.
func URL(output string) string {
	words := strings.Fields(output)
	for _, word := range slices.Backward(words) {
		u, err := url.Parse(word)
		if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && len(word) <= 2000 {
			return u.String()
		}
	}
	return ""
}
