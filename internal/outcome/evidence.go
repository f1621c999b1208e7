package outcome

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Evidence shows what was done in an attempt. All parts are optional; a report without any has none.
type Evidence struct {
	// Text says how the criterion of the task is met.
	Text string `json:"text,omitempty"`
	// Branch has the work, and Commit is its last commit. Base is the commit that it began from. Commits are full
	// hashes: 40 or 64 lower-case hexadecimal digits.
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	// Files, Insertions and Deletions are the size of the change, in files and lines.
	Files      int `json:"files,omitempty"`
	Insertions int `json:"insertions,omitempty"`
	Deletions  int `json:"deletions,omitempty"`
	// Checks are the checks that were run, at most MaxChecks.
	Checks []Check `json:"checks,omitempty"`
	// PullRequest is an http or https URL.
	PullRequest string `json:"pull_request,omitempty"`
}

// Check is the result of a check, such as the run of a test suite. It has a name or a command.
type Check struct {
	Name     string   `json:"name,omitempty"`
	Command  []string `json:"command,omitempty"` // program and arguments
	Passed   bool     `json:"passed"`
	ExitCode int      `json:"exit_code,omitempty"`
}

// Bounds on evidence. MaxBytes bounds it as a whole.
const (
	MaxChecks = 100
	maxName   = 256  // bytes of a branch, and of the name of a check
	maxURL    = 2048 // bytes
)

// IsZero reports whether there is no evidence.
func (e *Evidence) IsZero() bool {
	return e == nil || e.Text == "" && e.Branch == "" && e.Commit == "" && e.Base == "" && e.PullRequest == "" &&
		e.Files == 0 && e.Insertions == 0 && e.Deletions == 0 && len(e.Checks) == 0
}

// clone returns a copy; nil if there is no evidence.
func (e *Evidence) clone() *Evidence {
	if e.IsZero() {
		return nil
	}
	c := *e
	c.Checks = cloneNonEmpty(c.Checks)
	for i := range c.Checks {
		c.Checks[i].Command = cloneNonEmpty(c.Checks[i].Command)
	}
	return &c
}

// texts calls visit for each text.
func (e *Evidence) texts(visit func(field, text string)) {
	if e == nil {
		return
	}
	visit("evidence.text", e.Text)
	visit("evidence.branch", e.Branch)
	visit("evidence.commit", e.Commit)
	visit("evidence.base", e.Base)
	visit("evidence.pull_request", e.PullRequest)
	for i, c := range e.Checks {
		visit(fmt.Sprintf("evidence.checks[%d].name", i), c.Name)
		for j, arg := range c.Command {
			visit(fmt.Sprintf("evidence.checks[%d].command[%d]", i, j), arg)
		}
	}
}

// check adds the problems of evidence.
func (e *Evidence) check(to *Error) {
	if e == nil {
		return
	}
	e.texts(func(field, text string) {
		if strings.ContainsFunc(text, isControl) {
			to.addWrong("%s has control characters: %.80q", field, text)
		}
	})
	if !validBranch(e.Branch) {
		to.addWrong("evidence.branch is %.80q, expected the name of a git branch, of at most %d bytes",
			e.Branch, maxName)
	}
	for _, f := range []struct{ name, hash string }{{"commit", e.Commit}, {"base", e.Base}} {
		if f.hash != "" && !validHash(f.hash) {
			to.addWrong("evidence.%s is %.80q, expected a full hash: 40 or 64 digits, 0-9 and a-f", f.name, f.hash)
		}
	}
	for _, f := range []struct {
		name  string
		count int
	}{{"files", e.Files}, {"insertions", e.Insertions}, {"deletions", e.Deletions}} {
		if f.count < 0 {
			to.addWrong("evidence.%s is %d, expected a number from 0 up", f.name, f.count)
		}
	}
	if e.PullRequest != "" && !validURL(e.PullRequest) {
		to.addWrong("evidence.pull_request is %.80q, expected an http or https URL without a password, of at most "+
			"%d bytes",
			e.PullRequest, maxURL)
	}
	if len(e.Checks) > MaxChecks {
		to.addWrong("evidence.checks are %d, expected at most %d", len(e.Checks), MaxChecks)
		return
	}
	for i, c := range e.Checks {
		at := fmt.Sprintf("evidence.checks[%d]", i)
		to.require(notBlank(c.Name) || len(c.Command) > 0 && c.Command[0] != "", at+".name")
		if len(c.Name) > maxName || strings.ContainsFunc(c.Name, unicode.IsControl) {
			to.addWrong("%s.name is %.80q, expected one line of at most %d bytes", at, c.Name, maxName)
		}
		if c.Passed && c.ExitCode != 0 {
			to.addWrong("%s has passed, and its exit_code is %d", at, c.ExitCode)
		}
	}
}

// isControl reports whether a rune is a control character other than those of text in several lines.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

// validHash reports whether a text is a full hash of git.
func validHash(hash string) bool {
	return (len(hash) == 40 || len(hash) == 64) && strings.Trim(hash, "0123456789abcdef") == ""
}

// validBranch reports whether a text can be the name of a branch, see git-check-ref-format(1). Empty is none.
func validBranch(name string) bool {
	return len(name) <= maxName && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "/") &&
		!strings.HasSuffix(name, "/") && !strings.Contains(name, "..") && !strings.Contains(name, "@{") &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return unicode.IsControl(r) || strings.ContainsRune(` ~^:?*[\`, r)
		})
}

// validURL reports whether a text is an http or https URL without a user.
func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && !strings.ContainsFunc(text, unicode.IsSpace)
}

// Lines describes evidence, one part a line; the text may have several. They are not sanitized for terminals.
func (e *Evidence) Lines() (lines []string) {
	if e.IsZero() {
		return nil
	}
	if text := strings.TrimSpace(e.Text); text != "" {
		lines = append(lines, text)
	}
	var place []string
	for _, part := range []struct{ name, value string }{
		{"commit", e.Commit}, {"branch", e.Branch}, {"base", e.Base},
	} {
		if part.value != "" {
			place = append(place, part.name+" "+part.value)
		}
	}
	if len(place) > 0 {
		lines = append(lines, strings.Join(place, ", "))
	}
	if e.Files+e.Insertions+e.Deletions > 0 {
		lines = append(lines, fmt.Sprintf("files changed: %d, lines: +%d -%d", e.Files, e.Insertions, e.Deletions))
	}
	if e.PullRequest != "" {
		lines = append(lines, "pull request "+e.PullRequest)
	}
	for _, c := range e.Checks {
		name := c.Name
		if name == "" {
			name = strings.Join(c.Command, " ")
		}
		switch {
		case c.Passed:
			name += ": passed"
		case c.ExitCode != 0:
			name += fmt.Sprintf(": failed, exit code %d", c.ExitCode)
		default:
			name += ": failed"
		}
		lines = append(lines, name)
	}
	return lines
}

// Data returns what events have of evidence; nil if there is none.
func (e *Evidence) Data() map[string]any {
	if e.IsZero() {
		return nil
	}
	data := map[string]any{}
	for name, value := range map[string]string{
		"branch": e.Branch, "commit": e.Commit, "base": e.Base, "pull_request": e.PullRequest,
	} {
		if value != "" {
			data[name] = value
		}
	}
	if n := len(e.Checks); n > 0 {
		failed := slices.Clone(e.Checks)
		failed = slices.DeleteFunc(failed, func(c Check) bool { return c.Passed })
		data["checks"], data["checks_failed"] = n, len(failed)
	}
	return data
}
