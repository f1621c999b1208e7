package outcome

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const (
	hash = "0123456789abcdef0123456789abcdef01234567"
	sha2 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func fullEvidence() *Evidence {
	return &Evidence{
		Text: "all tests pass:\n\tmake test", Branch: "task/web-x4k", Commit: hash, Base: sha2,
		Files: 3, Insertions: 40, Deletions: 2, PullRequest: "https://example.org/pull/7",
		Checks: []Check{
			{Name: "unit", Passed: true}, {Command: []string{"make", "lint"}, ExitCode: 2}, {Name: "review"},
		},
	}
}

// Evidence is described, and shares no memory with the report that it came from.
func TestEvidence(t *testing.T) {
	t.Parallel()
	given := Report{Kind: Completed, Evidence: fullEvidence()}
	o, err := New(given)
	if err != nil {
		t.Fatal(err)
	}
	given.Evidence.Checks[1].Command[0], given.Evidence.Text = "changed", "changed"
	expected := []string{
		"all tests pass:\n\tmake test", "commit " + hash + ", branch task/web-x4k, base " + sha2,
		"files changed: 3, lines: +40 -2", "pull request https://example.org/pull/7", "unit: passed",
		"make lint: failed, exit code 2", "review: failed",
	}
	if got := o.Report().Evidence.Lines(); !slices.Equal(got, expected) {
		t.Errorf("%q", got)
	}
	data, err := json.Marshal(o.Report().Evidence.Data())
	const inEvents = `{"base":"` + sha2 + `","branch":"task/web-x4k","checks":3,"checks_failed":2,"commit":"` + hash +
		`","pull_request":"https://example.org/pull/7"}`
	if err != nil || string(data) != inEvents {
		t.Errorf("%s, %v", data, err)
	}
	if text := o.Report().Describe(); !strings.Contains(text, "\nEvidence:\n- all tests pass:") {
		t.Error(text)
	}
}

// Evidence without content is none.
func TestNoEvidence(t *testing.T) {
	t.Parallel()
	o, err := New(Report{Kind: Completed, Evidence: &Evidence{Checks: []Check{}}})
	e := o.Report().Evidence
	if err != nil || e != nil || e.Lines() != nil || e.Data() != nil || !e.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
}

// Evidence that cannot be true is refused, with the field.
func TestEvidenceRefused(t *testing.T) {
	t.Parallel()
	for field, e := range map[string]Evidence{
		"evidence.text":              {Text: "a\x1b[31m"},
		"evidence.text is not UTF-8": {Text: "a\xff"},
		"evidence.branch":            {Branch: "a b"},
		"branch is \"-d\"":           {Branch: "-d"},
		"branch is \"a..b\"":         {Branch: "a..b"},
		"evidence.commit":            {Commit: hash[:7]},
		"commit is \"0123456789ABC":  {Commit: strings.ToUpper(hash)},
		"evidence.base":              {Base: sha2 + "0"},
		"evidence.files":             {Files: -1},
		"evidence.insertions":        {Insertions: -1},
		"evidence.deletions":         {Deletions: -1},
		"evidence.pull_request":      {PullRequest: "javascript:alert(1)"},
		"pull_request is \"https://": {PullRequest: "https://me:secret@example.org/1"},
		"pull_request is \"http:///": {PullRequest: "http:///1"},
		"has control characters":     {PullRequest: "http://example.org/\x00"},
		"evidence.checks are 101":    {Checks: make([]Check, MaxChecks+1)},
		"missing evidence.checks[0]": {Checks: []Check{{Passed: true}}},
		"evidence.checks[1].name":    {Checks: []Check{{Name: "a"}, {Name: "b\nc"}}},
		"checks[0] has passed":       {Checks: []Check{{Name: "a", Passed: true, ExitCode: 1}}},
		"part of it is evidence":     {Text: strings.Repeat("x", MaxBytes)},
	} {
		if _, err := New(Report{Kind: Completed, Evidence: &e}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
