package integrity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Limits of the results of a run.
const (
	maxResults = 1_000_000 // tests
	maxOutput  = 1 << 30   // bytes
	maxLine    = 1 << 20   // bytes of a line of JSON; a longer one is output of a test, and is left out
)

// Result is the end of a test.
type Result string

const (
	Passed  Result = "passed"
	Skipped Result = "skipped"
	Failed  Result = "failed" // or it has not ended
)

// Results are the tests that have run, by name. A test that has run several times has its worst
// result.
type Results map[string]Result

func (r Results) set(name string, result Result) error {
	rank := []Result{"", Passed, Skipped, Failed}
	if slices.Index(rank, result) > slices.Index(rank, r[name]) {
		r[name] = result
	}
	if len(r) > maxResults {
		return fmt.Errorf("more than %s tests", plaintext.Thousands(maxResults))
	}
	return nil
}

// Ran returns the number of tests that were not skipped.
func (r Results) Ran() (n int) {
	for _, result := range r {
		if result != Skipped {
			n++
		}
	}
	return n
}

// Same returns the tests that have the same result in another run. Others depend on more than the code, as those do
// whose name has a random part.
func (r Results) Same(other Results) Results {
	same := maps.Clone(r)
	maps.DeleteFunc(same, func(name string, result Result) bool { return other[name] != result })
	return same
}

// ParseGo reads the output of go test -json. A test that began and did not end has failed. A package has a result, too,
// under its own name. Lines that are no JSON are left out; if all are, that is an error.
func ParseGo(in io.Reader) (Results, error) {
	all, running := Results{}, map[string]bool{}
	events := 0
	err := eachLine(in, func(line []byte) error {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			return nil
		}
		events++
		name := strings.TrimPrefix(e.Package+"."+e.Test, ".")
		if e.Test == "" {
			name = e.Package
		}
		result := map[string]Result{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action]
		switch {
		case e.Test == "" && e.Action == "skip": // it has no tests
		case result != "":
			delete(running, name)
			return all.set(name, result)
		case e.Action == "run":
			if running[name] = true; len(running) > maxResults {
				return errors.New("too many tests run at once")
			}
		}
		return nil
	})
	if err == nil && events == 0 {
		err = errors.New("there is no event")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the output of go test -json: %w", err)
	}
	for name := range running {
		all[name] = Failed
	}
	return all, nil
}

// eachLine calls do for each line, without its end, until one returns an error. It leaves out lines of more than
// maxLine bytes.
func eachLine(in io.Reader, do func([]byte) error) error {
	limited := &io.LimitedReader{R: in, N: maxOutput}
	r := bufio.NewReaderSize(limited, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			if _, err = r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
				line = nil
			}
		}
		if doErr := do(bytes.TrimRight(line, "\r\n")); doErr != nil {
			return doErr
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return err
		case limited.N <= 0:
			return fmt.Errorf("more than %d MiB", maxOutput>>20)
		default:
			return nil
		}
	}
}

// ParseJUnit reads the XML that JUnit and many other test runners write. Names are those of the class
// and the test.
func ParseJUnit(in io.Reader) (Results, error) {
	all := Results{}
	d := xml.NewDecoder(io.LimitReader(in, maxOutput))
	name, result, suites := "", Passed, 0
	for {
		token, err := d.Token()
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "testsuite", "testsuites":
				suites++
			case "testcase":
				name, result = strings.TrimPrefix(attribute(t, "classname")+"."+attribute(t, "name"), "."), Passed
			case "failure", "error":
				result = Failed
			case "skipped":
				if result == Passed {
					result = Skipped
				}
			}
		case xml.EndElement:
			if t.Name.Local == "testcase" {
				err = errors.Join(err, all.set(name, result))
			}
		}
		if errors.Is(err, io.EOF) && suites > 0 {
			return all, nil
		}
		if err != nil {
			line, column := d.InputPos()
			return nil, fmt.Errorf("reading JUnit XML: %d:%d: %w", line, column, err)
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// CompareResults returns findings about tests that ran before and no longer pass: they are missing,
// skipped, or fail.
func CompareResults(before, after Results) []change.Finding {
	var w weaker
	missing, skipped, failed := []string{}, []string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		switch {
		case is == "" && was != Skipped:
			missing = append(missing, name)
		case is == Skipped && was != Skipped:
			skipped = append(skipped, name)
		case is == Failed && was == Passed:
			failed = append(failed, name)
		}
	}
	report := func(names []string, what, allowed string) {
		if len(names) > 0 {
			tests := "tests"
			if len(names) == 1 {
				tests = "test"
			}
			w.add(RuleResult, "", fmt.Sprintf("%d %s %s: %s", len(names), tests, what, list(names)), allowed)
		}
	}
	report(missing, "that ran before did not run", "the tests that ran before")
	report(skipped, "that ran before skipped", "the tests that ran before")
	report(failed, "that passed before failed", "no test that fails newly")
	return w.findings
}

// CompareCheck returns findings about a check that is to prove that something was fixed: it has to
// fail before the change and to pass after it.
func CompareCheck(name string, passedBefore, passedAfter bool) []change.Finding {
	var w weaker
	name = change.Quote(plaintext.OneLine(name, 100))
	if passedBefore {
		w.add(RuleProof, "", "the check "+name+" passed before the change, so it proves nothing",
			"a check that fails before the change")
	}
	if !passedAfter {
		w.add(RuleProof, "", "the check "+name+" fails after the change", "a check that passes after the change")
	}
	return w.findings
}
