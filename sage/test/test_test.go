package test_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/test"
)

// alone knows no project, so every file is its own program.
type alone struct{}

func (alone) Settings(string) (*load.Settings, error) { return nil, fs.ErrNotExist }
func (alone) Fleet(string) (load.Fleet, error)        { return load.Fleet{}, nil }

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.sg": `mod b_test; test "one" { assert_eq(1 + 1, 2); } test "two" { assert_eq(1, 2); }`,
		"b_test.sg": `test "three" { assert(true); }`,
		"c_test.sg": `test "four" { let x = ; }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := &load.Program{Entry: filepath.Join(dir, "gone_test.sg"), Root: dir}
	for name, c := range map[string]struct {
		path, filter, want string
	}{
		"all":    {"", "", "one ok, two failed, three ok, invalid, gone"},
		"filter": {"", "a_test.sg::t", "two failed, invalid, gone"},
		"a file": {filepath.Join(dir, "a_test.sg"), "", "one ok, two failed"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = dir
			}
			programs, err := load.FindTests(alone{}, path)
			if err != nil {
				t.Fatal(err)
			}
			if c.path == "" {
				programs = append(programs, gone)
			}
			var got []string
			test.Run(t.Context(), programs, test.Options{
				Path: c.path, Filter: c.filter,
				Result: func(r eval.TestResult) {
					how := " ok"
					if r.Err != nil {
						how = " failed"
					}
					got = append(got, r.Name+how)
				},
				Invalid: func([]diag.Diagnostic) { got = append(got, "invalid") },
				Failed: func(err error) {
					if errors.Is(err, fs.ErrNotExist) {
						got = append(got, "gone")
					}
				},
			})
			want := strings.Split(c.want, ", ")
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
