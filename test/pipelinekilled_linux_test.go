package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// A check or a review that is killed, or takes too long, has given no answer: it neither blames the change nor the
// branch, and the task is tried again.
func TestPipelineStageKilled(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `security = { command = "./review.sh", timeout = "2s" }`)
	for name, text := range map[string]string{
		"review.sh": `#!/bin/sh
once() { grep -q "^+++ b/$1" diff && [ ! -e "$DESK/$1" ] && : >"$DESK/$1"; }
cd "$TMPDIR" && cat >diff
if once a.txt; then kill -9 $$; fi
if once b.txt; then exec cat "$DESK/pipe"; fi
`,
		"check.sh": `#!/bin/sh
if grep -q new c.txt && [ ! -e "$DESK/c" ]; then : >"$DESK/c"; kill -9 $$; fi
if grep -n bad d.txt; then : >"$DESK/failed"; exit 1; fi
if [ -e "$DESK/failed" ] && [ ! -e "$DESK/base" ]; then : >"$DESK/base"; kill -9 $$; fi
`,
	} {
		write(t, filepath.Join(p.dir, name), text)
		if err := os.Chmod(filepath.Join(p.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "killed")
	p.up()
	for _, test := range []struct {
		title    string
		obstacle outcome.ObstacleKind
	}{
		{"edit a", outcome.Crash},   // its review is killed
		{"edit b", outcome.Timeout}, // its review hangs
		{"edit c", outcome.Crash},   // its check is killed
		{"fail d", outcome.Crash},   // the check of the branch without the change is killed
	} {
		// What a person has committed was not tested yet.
		write(t, filepath.Join(p.dir, "mine"), test.title)
		p.git(p.dir, "add", "mine")
		p.git(p.dir, "commit", "-qm", "mine")
		id := p.add(test.title, "--pool", "fixer")
		d := p.await(id, "done or asked", func(t task.Task) bool { return isClosed(t) || isAsked(t) })
		first := d.Attempts[0].Outcome
		if d.Task.Question != nil || first.Kind != outcome.Retryable || first.Context.Obstacle.Kind != test.obstacle ||
			p.merged(id) != 1 {
			t.Errorf("%s: %+v, %+v", test.title, d.Task, first)
		}
	}
	p.wantClean()
}
