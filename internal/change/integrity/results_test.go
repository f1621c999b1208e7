package integrity

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// The results of a real run of go test.
func TestParseGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"a/a_test.go": `package a
import ("os"; "testing")
func TestPass(t *testing.T) { t.Run("sub", func(t *testing.T) {}); t.Run("bad", func(t *testing.T) { t.Skip() }) }
func TestFail(t *testing.T) { t.Fail() }
func TestEnds(t *testing.T) { os.Exit(3) }
`,
		"b/b_test.go": "package b\nfunc broken(\n",
		"c/c_test.go": "package c\nimport \"testing\"\nfunc TestC(t *testing.T) {}\n",
		"d/d.go":      "package d\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err == nil {
		t.Fatal("the tests pass")
	}
	got, err := ParseGo(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	want := Results{"example.com/m/a.TestPass": Passed, "example.com/m/a.TestPass/sub": Passed,
		"example.com/m/a.TestPass/bad": Skipped,
		"example.com/m/a.TestFail":     Failed, "example.com/m/a.TestEnds": Failed, "example.com/m/a": Failed,
		"example.com/m/b": Failed, "example.com/m/c": Passed, "example.com/m/c.TestC": Passed}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseGoHostile(t *testing.T) {
	t.Parallel()
	event := `{"Action":"pass","Package":"p","Test":"T"}` + "\n"
	for name, tt := range map[string]struct {
		in   string
		want Results
		err  string
	}{
		"empty":   {"", nil, "there is no event"},
		"no JSON": {"FAIL\nok\n", nil, "there is no event"},
		"mixed":   {"garbage\n{\n" + event + "null\n[]\n", Results{"p.T": Passed}, ""},
		"cut off": {event + `{"Action":"run","Package":"p","Test":"U"}` + "\n" + `{"Action":"pa`,
			Results{"p.T": Passed, "p.U": Failed}, ""},
		"a long line": {`{"Action":"output","Output":"` + strings.Repeat("x", 3<<20) + "\"}\n" + event,
			Results{"p.T": Passed}, ""},
		"no newline": {strings.TrimSpace(event), Results{"p.T": Passed}, ""},
		"worst of many": {event + `{"Action":"fail","Package":"p","Test":"T"}` + "\n" + event, Results{"p.T": Failed},
			""},
	} {
		got, err := ParseGo(strings.NewReader(tt.in))
		if d := cmp.Diff(tt.want, got); d != "" || (err == nil) != (tt.err == "") || err != nil &&
			!strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v, want %v, %q", name, got, err, tt.want, tt.err)
		}
	}
}

func TestParseJUnit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   string
		want Results
		err  string
	}{
		"all": {`<?xml version="1.0"?><testsuites><testsuite name="s"><testcase classname="a.B" name="one"/><testcase name="two"><failure>x</failure></testcase>
			<testcase classname="a" name="three"><skipped/></testcase><testcase name="four"><error/><skipped/></testcase></testsuite></testsuites>`,
			Results{"a.B.one": Passed, "two": Failed, "a.three": Skipped, "four": Failed}, ""},
		"one suite": {`<testsuite><testcase name="a"><system-out>x</system-out></testcase></testsuite>`,
			Results{"a": Passed}, ""},
		"none":       {`<testsuites/>`, Results{}, ""},
		"other":      {`<html></html>`, nil, "EOF"},
		"empty":      {``, nil, "EOF"},
		"cut off":    {`<testsuite><testcase name="a">`, nil, "1:31: XML syntax error on line 1: unexpected EOF"},
		"no XML":     {"ok", nil, "EOF"},
		"an entity":  {`<!DOCTYPE x [<!ENTITY a "b">]><testsuite>&a;</testsuite>`, nil, "invalid character entity"},
		"an unknown": {`<?xml version="1.0" encoding="ebcdic"?><testsuite/>`, nil, "ebcdic"},
	} {
		got, err := ParseJUnit(strings.NewReader(tt.in))
		if d := cmp.Diff(tt.want, got); d != "" || (err == nil) != (tt.err == "") || err != nil &&
			!strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v, want %v, %q", name, got, err, tt.want, tt.err)
		}
	}
}

func TestParseTAP(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   string
		want Results
		err  string
	}{
		"all": {"TAP version 14\n1..5\nok 1 - one\nnot ok 2 two\nok 3 - three # SKIP no disk\nnot ok - four # TODO later\nok 5\n",
			Results{"one": Passed, "two": Failed, "three": Skipped, "four": Skipped, "5": Passed}, ""},
		"nested": {"# Subtest: a\n    # Subtest: b\n    ok 1 - b\n    not ok 2 - c\n    1..2\nnot ok 1 - a\nok 2 - d\n1..2\n",
			Results{"a > b": Passed, "a > c": Failed, "a": Failed, "d": Passed}, ""},
		"a hash":       {"1..1\nok 1 - issue #7 # skipped\n", Results{"issue #7 # skipped": Passed}, ""},
		"go test":      {"ok  \texample.com/a\t0.1s\n", nil, "there is no plan"},
		"other output": {"1 ok\n1..x\nokay\n1..1 # done\nok 1 - a\r\n", Results{"a": Passed}, ""},
		"empty":        {"", nil, "there is no plan"},
	} {
		got, err := ParseTAP(strings.NewReader(tt.in))
		if d := cmp.Diff(tt.want, got); d != "" || (err == nil) != (tt.err == "") || err != nil &&
			!strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v, want %v, %q", name, got, err, tt.want, tt.err)
		}
	}
}

// The results of a real run of node --test.
func TestParseTAPOfNode(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "node")
	file := filepath.Join(t.TempDir(), "a.test.js")
	text := `const {describe, it} = require('node:test')
describe('sum', () => {
  it('adds', () => {}); it('fails', () => { throw new Error('x') }); it.skip('later', () => {})
  it.todo('some day', () => { throw new Error('y') })
})
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("node", "--test", "--test-reporter=tap", file).Output()
	if err == nil {
		t.Fatal("the tests pass")
	}
	got, err := ParseTAP(bytes.NewReader(out))
	want := Results{"sum": Failed, "sum > adds": Passed, "sum > fails": Failed, "sum > later": Skipped,
		"sum > some day": Skipped}
	for name := range got { // node adds a level for the file in some versions
		short := strings.TrimPrefix(name, file+" > ")
		if want[short] != got[name] && name != file {
			t.Errorf("%q: %s, want %q", name, got[name], want[short])
		}
		delete(want, short)
	}
	if err != nil || len(want) > 0 {
		t.Errorf("lacks %v, %v", want, err)
	}
}

// The form of results is found out, also behind what make prints.
func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Results{
		"go test -json\n" + `{"Action":"pass","Package":"p","Test":"T"}` + "\n": {"p.T": Passed},
		"prove\n1..1\nok 1 - a\n":                     {"a": Passed},
		`<testsuite><testcase name="a"/></testsuite>`: {"a": Passed},
		`<testsuite></testsuite>`:                     nil,
		"ok  \texample.com/a\t0.1s\n":                 nil,
		`{"Action":"start","Package":"p"}` + "\n":     nil,
		"": nil,
	} {
		if got, err := Parse(strings.NewReader(in)); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func TestCompareResults(t *testing.T) {
	t.Parallel()
	before := Results{"a": Passed, "b": Passed, "c": Passed, "d": Failed, "e": Skipped, "f": Failed, "g\x1b[m": Passed,
		"h": Failed}
	after := Results{"a": Passed, "b": Failed, "c": Skipped, "d": Passed, "h": Failed, "new": Failed}
	want := `test result: 2 tests that ran before did not run: f, "g"
test result: 1 test that ran before skipped: c
test result: 1 test that passed before failed: b
`
	if got := lines(CompareResults(before, after)); got != strings.ReplaceAll(want, `"g"`, "g") {
		t.Errorf("got\n%s", got)
	}
	if got := CompareResults(before, before); len(got) > 0 {
		t.Errorf("the same: %v", got)
	}
}

func TestCompareCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		before, after bool
		want          string
	}{
		{false, true, ""},
		{true, true, "proof: the check make test passed before the change, so it proves nothing\n"},
		{false, false, "proof: the check make test fails after the change\n"},
		{true, false, "proof: the check make test passed before the change, so it proves nothing\nproof: the check make test fails after the change\n"},
	} {
		if got := lines(CompareCheck("make test", tt.before, tt.after)); got != tt.want {
			t.Errorf("%v, %v: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

func FuzzResults(f *testing.F) {
	f.Add(`{"Action":"run","Package":"p","Test":"T"}`)
	f.Add(`<testsuite><testcase name="a"/></testsuite>`)
	f.Add("1..1\n# Subtest: a\n    ok 1 - b # SKIP\nok 1 - a\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, result := range must(ParseGo(strings.NewReader(text))) {
			if result != Passed && result != Failed && result != Skipped {
				t.Errorf("%q: %q", name, result)
			}
		}
		must(ParseJUnit(strings.NewReader(text)))
		must(ParseTAP(strings.NewReader(text)))
	})
}

func must(r Results, _ error) Results { return r }
