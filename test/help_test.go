package test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The sage commands also work under their former names, which help does not list.
func TestOldSageCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.sg"), "agent A { on start { print(1) } }\nrun A;\n")
	took := regexp.MustCompile(`\(\d+(\.\d+)?m?s\)`)
	same := func(code int, args ...string) {
		t.Helper()
		out, errs := coppice(t, dir, code, append([]string{"sage"}, args...)...)
		oldOut, oldErrs := coppice(t, dir, code, args...)
		out, oldOut = took.ReplaceAllString(out, "(1s)"), took.ReplaceAllString(oldOut, "(1s)")
		if oldErrs = strings.ReplaceAll(oldErrs, "see coppice ", "see coppice sage "); oldOut != out || oldErrs != errs {
			t.Errorf("coppice %s: %q, %q; coppice sage: %q, %q", strings.Join(args, " "), oldOut, oldErrs, out, errs)
		}
	}
	same(exitOK, "check", "a.sg")
	same(exitFailure, "fmt", "--check", "a.sg")
	same(exitFailure, "test", "none.sg")
	same(exitUsage, "new")
	same(exitUsage, "lsp", "x")
	if help, _ := coppice(t, dir, exitOK, "sage", "--help"); !strings.Contains(help, "coppice run FILE.sg") {
		t.Errorf("no word of how to run a program:\n%s", help)
	}
}
