package integrity

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// Lines of the Test Anything Protocol. Those of subtests are indented.
var (
	tapTest    = lazyregexp.New(`^( *)(not )?ok\b *(\d*) *(?:- )?(.*)$`)
	tapSubtest = lazyregexp.New(`^( *)# Subtest: (.*)$`)
	tapPlan    = lazyregexp.New(`^1\.\.\d+( *#.*)?$`)
	tapHint    = lazyregexp.New(`(?i)(?:^|\s)#\s*(skip|todo)\b`)
)

// ParseTAP reads the Test Anything Protocol, as node --test, prove, bats and others write it. A test is named by its
// description with those of the tests around it, and without one by its number. Without a plan it is an error.
func ParseTAP(in io.Reader) (Results, error) {
	all := Results{}
	var around []string // names of subtests, by depth
	planned := false
	err := eachLine(in, func(line []byte) error {
		text := string(line)
		if tapPlan().MatchString(text) {
			planned = true
			return nil
		}
		if m := tapSubtest().FindStringSubmatch(text); m != nil {
			depth := len(m[1]) / 4
			around = append(around[:min(depth, len(around))], strings.TrimSpace(m[2]))
			return nil
		}
		m := tapTest().FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		hint := ""
		name := m[4]
		if at := tapHint().FindStringSubmatchIndex(name); at != nil {
			hint, name = strings.ToLower(name[at[2]:at[3]]), name[:at[0]]
		}
		if name = strings.TrimSpace(name); name == "" {
			name = m[3]
		}
		outer := around[:min(len(m[1])/4, len(around))]
		result := Passed
		switch {
		case hint == "skip", hint == "todo" && m[2] != "":
			result = Skipped
		case m[2] != "":
			result = Failed
		}
		return all.set(strings.Join(append(outer[:len(outer):len(outer)], name), " > "), result)
	})
	if err == nil && !planned {
		err = errors.New("there is no plan")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the output of tests as TAP: %w", err)
	}
	return all, nil
}

// Parse reads results in a form that is found out from the content: go test -json, TAP or JUnit XML. Other lines may
// be around the first two. It returns nil if the form is none of them or no test has run.
func Parse(in io.ReadSeeker) (Results, error) {
	for _, parse := range []func(io.Reader) (Results, error){ParseGo, ParseTAP, ParseJUnit} {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("reading the results of tests: %w", err)
		}
		if all, err := parse(in); err == nil && len(all) > 0 {
			return all, nil
		}
	}
	return nil, nil
}
