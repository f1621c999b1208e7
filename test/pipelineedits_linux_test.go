package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// editsModel answers with edits, and cannot change files itself.
const editsModel = `#!/bin/sh
prompt=$(cat)
printf '%s\n' "$prompt" >>"$DESK/prompts/$COPPICE_TASK"
title=$(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
last=${title##* }
echo cheat 2>/dev/null >"$last.txt"
block() { printf 'Here it is.\n\n%s\n<<<<<<< SEARCH\n%s=======\n%s\n>>>>>>> REPLACE\n\n' "$1" "${2:+$2
}" "$3"; }
again() { case $prompt in *'None of the edits'*) return 0 ;; esac; return 1; }
case $title in
edit*) block "$last.txt" 'old  ' new ;;
twice*) if again; then block "$last.txt" "$(printf 'same\nend')" "$(printf 'same\nnew')"; else block "$last.txt" same new; fi ;;
never*) block "$last.txt" 'what is not there' new ;;
talk*) echo 'I have made the change, and the tests pass!' ;;
outside*) block ../outside.txt '' new ;;
guard*) block .github/ci.yml '' new ;;
shrink*) printf '%s\n' "$last.txt" '~~~' | tr '~' '\140'; echo gone; echo '~~~' | tr '~' '\140' ;;
esac
echo '{"summary":"edited '"$last"'"}'
`

// Seed 003, section 5, surgical insertion and fuzzy application: a model only answers, and its edits are applied where
// they fit. No edit is applied in part, or where it is not certain.
func TestPipelineAppliesEdits(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `implement = { command = "./edits.sh", apply_edits = true }`, "security = false",
		`set_up = "touch deps"`) // may write to the worktree
	write(t, filepath.Join(p.dir, ".gitignore"), ".coppice/\ndeps\n")
	write(t, filepath.Join(p.dir, "check.sh"), "#!/bin/sh\n[ -e deps ] && [ -z \"$COPPICE_PORT\" ]\n")
	write(t, filepath.Join(p.dir, "edits.sh"), editsModel)
	if err := os.Chmod(filepath.Join(p.dir, "edits.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.dir, "b.txt"), "same\nmiddle\nsame\nend\n")
	long := strings.Repeat("a line\n", 1000)
	write(t, filepath.Join(p.dir, "g.txt"), long)
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "edits")
	p.edit("[daemon]\n", "[daemon]\nmax_claims = 1\n")
	p.up()
	for title, want := range map[string]string{"edit a": "new\n", "twice b": "same\nmiddle\nsame\nnew\n"} {
		id := p.add(title, "--pool", "fixer")
		d := p.await(id, "done", isClosed)
		file := filepath.Join(p.dir, title[len(title)-1:]+".txt")
		if text, err := os.ReadFile(file); err != nil || string(text) != want || d.Task.Outcome != task.Completed {
			t.Errorf("%s: %q, %v, %+v", title, text, err, d.Task)
		}
		prompt, err := os.ReadFile(filepath.Join(p.desk, "prompts", id))
		if err != nil || !strings.Contains(string(prompt), title[len(title)-1:]+".txt:\n| ") {
			t.Errorf("%s: its prompt lacks the file: %v\n%s", title, err, prompt)
		}
	}
	for title, want := range map[string]struct {
		kind     outcome.Kind
		obstacle outcome.ObstacleKind
		says     string
	}{
		"never c":   {outcome.Retryable, outcome.SchemaMismatch, "c.txt"},
		"talk d":    {outcome.Retryable, outcome.SchemaMismatch, "no edits found"},
		"outside e": {outcome.Retryable, outcome.SchemaMismatch, "../outside.txt"},
		"guard f":   {outcome.Escalated, outcome.GuardDenied, ".github/ci.yml"},
		"shrink g":  {outcome.Retryable, outcome.SchemaMismatch, "g.txt"},
	} {
		id := p.add(title, "--pool", "fixer")
		d := p.await(id, "set aside", func(t task.Task) bool { return t.Status == task.Parked })
		r := d.Attempts[0].Outcome
		if r.Kind != want.kind || r.Context.Obstacle.Kind != want.obstacle ||
			!strings.Contains(r.Context.Obstacle.Description, want.says) || p.merged(id) != 0 {
			t.Errorf("%s: %+v", title, r)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "..", "outside.txt")); err == nil {
		t.Error("a file outside of the worktree was written")
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "g.txt")); err != nil || string(text) != long {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
