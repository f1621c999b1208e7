package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// act is what the stages of a pipeline do in one attempt at a task. An attempt that is killed is not the last one of
// its act: the act is over when the prompt has what it taught.
type act struct {
	plan  string // the answer of plan; empty for one step that edits the file of the task
	edits string // the line that implement adds to the file; goodLine if it is empty
	how   string // what implement or plan does instead: one of the words below
	// kind and obstacle say how the attempt ends; Completed is the last act.
	kind     outcome.Kind
	obstacle outcome.ObstacleKind
	teaches  string // a text of the outcome, or the answer of the person, that later prompts have
	answer   string // of the person who is asked
}

// What stages do instead of a good change.
const (
	hangs   = "hangs"   // plan does not end
	crashes = "crashes" // implement is killed by a signal, with half a change
	wide    = "wide"    // implement edits three files
	meets   = "meets"   // implement waits for the other task that edits the same line
)

// Lines that implement adds to a file.
const (
	goodLine = "new"
	badLine  = "bad"      // fails the test
	backdoor = "backdoor" // fails the review
)

// completes is the last act of a task that is merged.
var completes = act{kind: outcome.Completed}

// script returns the acts of a kind of task. The first word of a title is its kind, the second one its file.
func script(kind string) []act {
	switch kind {
	case "edit", "wait":
		return []act{completes}
	case "divide":
		return []act{{kind: outcome.Decomposed, obstacle: outcome.OtherObstacle}}
	case "fail": // its tests
		return []act{{edits: badLine, kind: outcome.Retryable, obstacle: outcome.VerificationFailed,
			teaches: "a file is bad"}, completes}
	case "never": // it fails each time
		return []act{{edits: badLine, kind: outcome.Retryable, obstacle: outcome.VerificationFailed}}
	case "babble": // it fails each time, too
		return []act{{plan: "I would first read {the code} and then", kind: outcome.Retryable,
			obstacle: outcome.SchemaMismatch}}
	case "defer": // until the task that its text names is done
		return []act{{plan: `{"obstacle":{"kind":"missing_prerequisite","task":"%s","description":"the file is missing"}}`,
			kind: outcome.Deferred, obstacle: outcome.MissingPrerequisite, teaches: "the file is missing"}, completes}
	case "protect":
		return []act{{plan: planOf(".github/ci.yml"), kind: outcome.Escalated, obstacle: outcome.GuardDenied,
			teaches: "leave CI alone", answer: "leave CI alone"}, completes}
	case "hang":
		return []act{{how: hangs, kind: outcome.Retryable, obstacle: outcome.Timeout,
			teaches: "has not ended within"}, completes}
	case "crash":
		return []act{{how: crashes, kind: outcome.Retryable, obstacle: outcome.VerificationFailed,
			teaches: "ended by SIGTERM"}, completes}
	case "open": // a backdoor
		return []act{{edits: backdoor, kind: outcome.Escalated, obstacle: outcome.GuardDenied,
			teaches: "without a backdoor", answer: "without a backdoor"}, completes}
	case "blast":
		return []act{{how: wide, kind: outcome.Retryable, obstacle: outcome.GuardDenied,
			teaches: "is refused in maintenance mode"}, completes}
	case "clash": // one of the two that meet is merged first
		return []act{{how: meets, kind: outcome.Retryable, obstacle: outcome.MergeConflict,
			teaches: "conflicts with the branch"}, completes}
	}
	return nil
}

// current returns the act of an attempt with a prompt, and its number from 0. What other tasks
// have taught does not count.
func current(kind, prompt string) (act, int) {
	all := script(kind)
	prompt, _, _ = strings.Cut(prompt, "\n# What has failed in other tasks")
	for i, a := range all {
		if a.teaches == "" || !strings.Contains(prompt, a.teaches) {
			return a, i
		}
	}
	return act{}, len(all)
}

// planOf returns a plan of one step.
func planOf(file string) string {
	return fmt.Sprintf(`The plan is: {"steps":[{"name":"edit","instructions":"edit it","files":[%q]}]}`, file)
}

// entry is a task of the backlog.
type entry struct {
	title string
	after string // the title of a task that it depends on, or that it is deferred for
	most  int    // failed attempts after which it is parked; 0 for never
	first bool   // it is more urgent than the others
}

func (e entry) kind() string { return strings.Fields(e.title)[0] }

// backlog has tasks. One that names another comes after it.
type backlog []entry

// newBacklog returns a backlog of which some tasks are divided. With 21 it has 34 tasks and the mix of outcomes of
// GLITCHLAB's first batch: 21 are divided, 1 is merged at once, 2 fail. The other 10 end in each of the other ways.
func newBacklog(divided int) backlog {
	all := backlog{
		{title: "clash left", first: true}, {title: "clash right", first: true},
		{title: "edit once"}, {title: "never good", most: 3}, {title: "babble on", most: 3}, {title: "fail tests"},
		{title: "wait turn", after: "edit once"}, {title: "protect ci"}, {title: "hang plan"}, {title: "crash half"},
		{title: "open door"}, {title: "blast wide"},
	}
	for i := range divided {
		all = append(all, entry{title: fmt.Sprintf("divide d%02d", i+1)})
	}
	return append(all, entry{title: "defer late", after: all[len(all)-1].title})
}

// parts returns the titles of the subtasks of a task that is divided into two.
func parts(title string) []string {
	_, file, _ := strings.Cut(title, " ")
	return []string{"edit " + file + "-1", "edit " + file + "-2"}
}

// leaves returns the titles of all tasks that a worker implements, and whether they are merged at the end.
func (b backlog) leaves() map[string]bool {
	all := map[string]bool{}
	for _, e := range b {
		if e.kind() == "divide" {
			for _, part := range parts(e.title) {
				all[part] = true
			}
			continue
		}
		all[e.title] = e.most == 0
	}
	return all
}

// meetingFile is the file of which two tasks change the same line, so that it has both words at the end.
const (
	meetingFile = "words.txt"
	emptyLine   = "words:\n"
)

// fileOf returns the file that a task edits.
func fileOf(title string) string {
	kind, name, _ := strings.Cut(title, " ")
	if kind == "clash" {
		return meetingFile
	}
	return name + ".txt"
}

// firstFiles returns the files of the repository before all tasks.
func (b backlog) firstFiles() map[string]string {
	files := map[string]string{
		".gitignore": ".coppice/\n", meetingFile: emptyLine, "w1.txt": "old\n", "w2.txt": "old\n",
	}
	for title := range b.leaves() {
		if file := fileOf(title); file != meetingFile {
			files[file] = "old\n"
		}
	}
	return files
}

// lastFiles returns the files of the repository after all tasks, whatever the order of merges was.
func (b backlog) lastFiles() map[string]string {
	files := b.firstFiles()
	for title, merged := range b.leaves() {
		if merged {
			files[fileOf(title)] = edited(files[fileOf(title)], title, goodLine)
		}
	}
	return files
}

// edited returns the text of the file of a task after its change.
func edited(text, title, line string) string {
	kind, word, _ := strings.Cut(title, " ")
	if kind != "clash" {
		return text + line + "\n"
	}
	words := append(strings.Fields(text)[1:], word)
	slices.Sort(words)
	return "words: " + strings.Join(words, " ") + "\n"
}
