// Package integrity finds out whether a change makes tests weaker: fewer tests or assertions, more
// that are skipped, expected output that was rewritten, another command that runs them. It reads the
// files before and after the change, and the results of runs; it runs nothing.
//
// Except for Go, tests are recognised by patterns. They do not understand a program: that nothing is
// found does not prove that a test still tests the same.
package integrity

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Rules of the findings of this package.
const (
	RuleFewer    change.Rule = "fewer tests"
	RuleSkips    change.Rule = "more skips"
	RuleFocus    change.Rule = "focus" // only some tests of a file run
	RuleAsserts  change.Rule = "fewer assertions"
	RuleTrivial  change.Rule = "trivial assertion"
	RuleExcluded change.Rule = "excluded" // a build constraint or name that keeps a file from some builds
	RuleUnread   change.Rule = "unreadable test"
	RuleMoved    change.Rule = "not a test" // no longer named as one
	RuleExpected change.Rule = "expected output"
	RuleCommand  change.Rule = "test command"
	RuleResult   change.Rule = "test result"
	RuleProof    change.Rule = "proof"
)

// Weakens reports whether a finding of a rule says that fewer tests or assertions run than before. The other rules
// find what may be the purpose of a change, such as new expected output or a new test for another system, or what
// cannot be compared.
func Weakens(r change.Rule) bool {
	switch r {
	case RuleFewer, RuleSkips, RuleFocus, RuleAsserts, RuleTrivial, RuleMoved, RuleResult, RuleProof:
		return true
	}
	return false
}

// maxSource bounds a file whose tests are counted, in bytes.
const maxSource = 1 << 20

// Check returns what makes tests weaker in a change that was read. Rules say which files are tests;
// their kind says whether a person may approve the findings.
func Check(ctx context.Context, c *change.Change, r change.Rules) ([]change.Finding, error) {
	var files []change.File
	for _, f := range c.Files {
		if f.Status != change.Copied && (f.Old.Size <= maxSource && f.New.Size <= maxSource || isTest(f, r)) {
			files = append(files, f)
		}
	}
	contents, err := c.Contents(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("reading tests: %w", err)
	}
	var all []change.Finding
	for _, f := range compare(files, contents, r) {
		f.Review = r.Kind == change.Evolution
		all = append(all, f)
	}
	return all, nil
}

func isTest(f change.File, r change.Rules) bool {
	return slices.ContainsFunc(f.Paths(), func(name string) bool {
		_, ok := r.Tests.Match(name)
		return ok
	})
}

// compared is a file whose tests are counted before and after.
type compared struct {
	path          string
	before, after counts
}

// compare compares files by their contents.
func compare(files []change.File, contents map[string]string, r change.Rules) []change.Finding {
	var w weaker
	var sources []compared
	for _, f := range files {
		before, after := contents[f.Old.ID], contents[f.New.ID]
		w.manifest(f, before, after)
		oldName := f.Path
		if f.Status == change.Renamed {
			oldName = f.OldPath
		}
		_, wasTest := r.Tests.Match(oldName)
		_, is := r.Tests.Match(f.Path)
		if wasTest && !is {
			w.add(RuleMoved, oldName, "a test was renamed to "+change.Quote(f.Path), "names by which tests are found")
		}
		switch {
		case wasTest && isExpected(oldName):
			if f.Old.ID != f.New.ID && f.Old.Mode != "" {
				w.add(RuleExpected, oldName, "expected output was "+string(f.Status),
					"tests that hold the output to what it was")
			}
			continue
		case !wasTest && !is && path.Ext(f.Path) != ".rs": // Rust has tests next to what they test
			continue
		case max(f.Old.Size, f.New.Size) > maxSource:
			w.add(RuleUnread, f.Path, plaintext.Thousands(max(f.Old.Size, f.New.Size))+" bytes",
				fmt.Sprintf("at most %d MiB of a test", maxSource>>20))
			continue
		}
		if f.Status == change.Deleted {
			after = ""
		}
		sources = append(sources, compared{f.Path, count(oldName, before), count(f.Path, after)})
	}
	w.sources(sources)
	return w.findings
}

// isExpected reports whether a file has expected output of tests, or other data that they read.
func isExpected(name string) bool {
	for part := range strings.SplitSeq(pattern.Fold(name), "/") {
		switch part {
		case "testdata", "golden", "__snapshots__", "snapshots", "fixtures":
			return true
		}
	}
	return slices.Contains([]string{".snap", ".golden", ".approved", ".expected"}, path.Ext(pattern.Fold(name)))
}

// weaker collects findings.
type weaker struct{ findings []change.Finding }

func (w *weaker) add(rule change.Rule, path, found, allowed string) {
	w.findings = append(w.findings, change.Finding{Rule: rule, Path: path, Found: found, Allowed: allowed})
}

// sources compares the counts of files. A test that has moved to another file is not missing.
func (w *weaker) sources(all []compared) {
	appeared := map[string]int{}
	asserts := 0
	for _, c := range all {
		for name, n := range c.after.tests {
			appeared[name] += max(0, n-c.before.tests[name])
		}
		asserts += c.after.asserts - c.before.asserts
	}
	for _, c := range all {
		moved := 0
		var gone []string
		for name, n := range c.before.tests {
			missing := max(0, n-c.after.tests[name])
			here := min(missing, appeared[name])
			appeared[name] -= here
			moved += here
			if missing > here {
				gone = append(gone, name)
			}
		}
		w.counts(c, moved, gone, asserts >= 0)
	}
}

// counts compares the counts of one file.
func (w *weaker) counts(c compared, moved int, gone []string, sameAsserts bool) {
	before, after := c.before, c.after
	if after.problem != "" && after.problem != before.problem {
		w.add(RuleUnread, c.path, after.problem, "tests that can be read")
		return
	}
	if n, m := before.total(), after.total(); m+moved < n {
		w.add(RuleFewer, c.path, fmt.Sprintf("%d tests became %d, without %s", n, m, list(gone)),
			"as many tests as before")
	}
	more := func(rule change.Rule, n, m int, what, allowed string) {
		if m > n {
			w.add(rule, c.path, fmt.Sprintf("%d %s became %d", n, what, m), allowed)
		}
	}
	more(RuleSkips, before.skips, after.skips, "skips", "no more skips than before")
	more(RuleFocus, before.focus, after.focus, "tests that keep others from running", "no more than before")
	more(RuleTrivial, before.trivial, after.trivial, "assertions that always hold", "assertions that can fail")
	if after.asserts < before.asserts && !(moved > 0 && sameAsserts) {
		w.add(RuleAsserts, c.path, fmt.Sprintf("%d assertions became %d", before.asserts, after.asserts),
			"as many assertions as before")
	}
	if after.condition != before.condition && after.condition != "" {
		w.add(RuleExcluded, c.path, "it is only built with "+plaintext.OneLine(after.condition, 100),
			"the builds of before")
	}
}

// list returns some names as one text that is safe to show.
func list(names []string) string {
	slices.Sort(names)
	more := ""
	if len(names) > 3 {
		more = fmt.Sprintf(" and %d more", len(names)-3)
		names = names[:3]
	}
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, change.Quote(plaintext.OneLine(n, 80)))
	}
	return strings.Join(quoted, ", ") + more
}
