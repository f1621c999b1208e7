package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// recorded writes the files of a recorded run into a directory, as classify reads them.
func recorded(t *testing.T, dir, group, scenario string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(root, "internal", "agentcli", "testdata", group+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"out": "run.out", "err": "run.err", "session": "run.session.jsonl", "end": "run.code"}
	for _, f := range a.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if name != scenario {
			continue
		}
		if text := string(f.Data); part == "end" {
			code, _, _ := strings.Cut(strings.TrimPrefix(text, "code "), "\n")
			f.Data = []byte(code + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, names[part]), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The example in docs/models.md is what a recorded run gives.
func TestClassifyDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, ok := strings.Cut(block(t, string(page), "console"), "$ coppice classify run.out\n")
	if !ok {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	recorded(t, dir, "claude-oauth", "quota")
	t.Setenv("TZ", "UTC")
	if out, err := coppice(t, dir, 0, "classify", "run.out"); out != shown || err != "" {
		t.Errorf("it prints\n%s%s\nthe page shows\n%s", out, err, shown)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recorded(t, dir, "codex", "tool-quota")
	out, _ := coppice(t, dir, 0, "classify", "--json", "run.out")
	var c struct {
		Outcome, Obstacle, Version, Reset string
		From                              string `json:"reset_from"`
		Tokens                            *int64
		Source                            string `json:"usage_from"`
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err, out)
	}
	if c.Outcome != "deferred" || c.Obstacle != "usage_limit" || c.Version != "0.169.0" || c.From != "session file" || c.Tokens == nil || *c.Tokens != 1165 || c.Source != "session file" {
		t.Errorf("%s", out)
	}
	for _, part := range []string{"run.session.jsonl", "run.err"} {
		if err := os.Remove(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ = coppice(t, dir, 0, "classify", "run.out"); !strings.HasPrefix(out, "deferred, usage limit: ") || !strings.Contains(out, "\ntokens    unknown\n") {
		t.Errorf("without the file of its session:\n%s", out)
	}
	write(t, filepath.Join(dir, "bad.out"), "")
	write(t, filepath.Join(dir, "bad.code"), "one")
	for args, expected := range map[string]string{
		"":                      "expected one FILE",
		"none.out":              "open none.out: no such file or directory",
		"bad.out":               "bad.code:1:1: expected an exit code",
		"--cli cluade run.out":  `unknown command line "cluade", expected one of claude, codex, gemini, opencode, copilot, plain; did you mean "claude"?`,
		"--stderr none run.out": "open none: no such file or directory",
	} {
		code := 1
		if args == "" || strings.HasPrefix(args, "--cli") {
			code = 2
		}
		if _, err := coppice(t, dir, code, append([]string{"classify"}, strings.Fields(args)...)...); !strings.Contains(err, expected) {
			t.Errorf("%q: %q, expected %q", args, err, expected)
		}
	}
	if out, _ = coppice(t, dir, 0, "classify", "--cli", "codex", "--exit-code=-9", "bad.out"); !strings.HasPrefix(out, "retryable, crash: ended by signal 9\n") {
		t.Errorf("a signal: %s", out)
	}
}
