// Package configtest holds helpers for the tests of all configuration formats.
package configtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	gotoml "github.com/pelletier/go-toml/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

// Project writes the files of a txtar archive into a new directory called shop.
func Project(t testing.TB, archive string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "shop")
	for _, f := range txtar.Parse([]byte(archive)).Files {
		Write(t, filepath.Join(dir, f.Name), string(f.Data), 0o644)
	}
	return dir
}

// CheckErrors fails unless err is toml.Errors, in order, each on one line with a place in data.
func CheckErrors(t *testing.T, data []byte, err error) {
	t.Helper()
	errs, _ := errors.AsType[toml.Errors](err)
	if len(errs) == 0 {
		t.Fatalf("got error %v", err)
	}
	lines := strings.Split(string(data), "\n")
	for i, e := range errs {
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len([]rune(lines[e.Line-1]))+1 {
			t.Errorf("%v: not a place in the file", e)
		}
		if i > 0 && (e.Line < errs[i-1].Line || e.Line == errs[i-1].Line && e.Column < errs[i-1].Column) {
			t.Errorf("%v: out of order", e)
		}
		if strings.ContainsAny(e.Error(), "\n\x1b\x00") || e.Message == "" {
			t.Errorf("%q: not one printable line", e.Error())
		}
	}
}

// CheckRows fails if the reference page would lack an example or have a broken table.
func CheckRows(t *testing.T, s toml.Section) {
	t.Helper()
	if (s.Example == "") != (s.Header == "") {
		t.Errorf("%q has the example %q", s.Header, s.Example)
	}
	for _, k := range s.Rows {
		if k.Name == "" || k.Type == "" || k.Doc == "" || strings.Contains(k.Type+k.Default+k.Doc, "|") {
			t.Errorf("%s: the row of %q is not complete, or breaks the table", s.Header, k.Name)
		}
	}
}

// Write creates a file with its directory, and returns its path.
func Write(t testing.TB, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Quoted returns a TOML basic string with every second kind of character escaped.
func Quoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f || r%2 == 0 && r > 0x7f {
			fmt.Fprintf(&b, `\U%08X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

var (
	SomeName = rapid.StringMatching(`[a-zA-Z0-9_äß♥.@]{1,10}[a-z]`)
	SomeText = rapid.StringMatching(`[ -~\t\nä♥😀]{1,12}`)
)

// Compiled resolves the JSON Schema that a function writes.
func Compiled(t testing.TB, write func(io.Writer) error) *jsonschema.Resolved {
	t.Helper()
	var text bytes.Buffer
	if err := write(&text); err != nil {
		t.Fatal(err)
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(text.Bytes(), schema); err != nil {
		t.Fatal(err)
	}
	s, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// InJSON converts a TOML file to the JSON value that an editor checks against a schema. It
// reports false if JSON cannot express a value.
func InJSON(t testing.TB, text string) (any, bool) {
	t.Helper()
	var document map[string]any
	if err := gotoml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := json.Marshal(document)
	if _, inexpressible := errors.AsType[*json.UnsupportedValueError](err); inexpressible {
		return nil, false // infinity or NaN
	}
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v, true
}

// Variables returns n variables, one per line.
func Variables(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "A%d = \"\"\n", i)
	}
	return b.String()
}

// UptimeMonitor is an Aidefile that runs every five minutes.
const UptimeMonitor = `[persona]
name = "uptime-monitor"
[trigger]
on = "cron:*/5 * * * *" # every 5 minutes
[daemon]
restart = "always" # respawn on success and failure
max_restarts = 100
backoff = "exponential"
`
