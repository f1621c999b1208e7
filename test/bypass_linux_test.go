package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// script commits an executable file of a project.
func (p pipelineProject) script(name, text string) {
	p.t.Helper()
	write(p.t, filepath.Join(p.dir, name), text)
	if err := os.Chmod(filepath.Join(p.dir, name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", name)
}

// bypassModel tries to change .github, which is protected, in the way that the title of its task names. After a failure
// it only edits a file.
const bypassModel = `#!/bin/sh
prompt=$(cat)
set -- $(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
last=$2.txt
case $prompt in *'What has failed before'*) set -- edit ;; esac
plan() { echo '{"steps":[{"name":"edit","instructions":"edit","files":["'"$1"'"]}]}'; }
late() { # a process in a session of its own, which outlives its stage, writes when it is told to
	: >"$DESK/$1-$COPPICE_TASK"
	there=$PWD setsid sh -c 'cd /; echo ready >"$DESK/'$1'-done"; read x <"$DESK/'$1'"
		echo late >"$there/.github/late"; echo late >>"$there/'$last'"; echo done >"$DESK/'$1'-done"
	' >/dev/null 2>&1 </dev/null &
	read x <"$DESK/$1-done"
}
case $COPPICE_STAGE:$1 in
plan:plan-dot) plan ./.github/x ;;
plan:plan-dotdot) plan src/../.github/x ;;
plan:plan-case) plan .GitHub/x ;;
plan:*) plan "$last" ;;
implement:dot) echo x >./.github/x ;;
implement:dotdot) mkdir src; echo x >src/../.github/x; rmdir src ;;
implement:case) mkdir .GitHub; echo x >.GitHub/x ;;
implement:link) ln -s .github link ;;
implement:through-link) ln -s .github link; echo x >link/ci.yml; rm link ;;
implement:rename) mv "$last" .github/ ;;
implement:rename-away) mv .github/ci.yml ci.yml ;;
implement:sed) sh -c 'find . -name "ci.y*" -exec sed -i s/old/evil/ {} +' ;;
implement:late-*) late "$1"; echo new >>"$last" ;;
implement:*) echo new >>"$last" ;;
esac
echo '{"summary":"edited it"}'
`

// bypassStage tells the process of a task that is late, and waits until it has written.
const bypassStage = `#!/bin/sh
late=late-$COPPICE_STAGE
if [ "$COPPICE_ATTEMPT" = 1 ] && [ -e "$DESK/$late-$COPPICE_TASK" ]; then
	timeout 60 sh -c 'echo now >"$DESK/'$late'"; read x <"$DESK/'$late'-done"; : >"$DESK/'$late'-wrote"'
fi
`

// However a model tries to change what is protected, it is refused, or has no effect on what is merged.
func TestPipelineBypass(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 3, `archive = "./stage.sh"`, `security = "./stage.sh"`)
	for _, name := range []string{"late-security", "late-archive"} {
		for _, pipe := range []string{name, name + "-done"} {
			if err := syscall.Mkfifo(filepath.Join(p.desk, pipe), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(p.dir, ".github"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.dir, ".github", "ci.yml"), "old\n")
	p.script("stage.sh", bypassStage)
	p.script("model.sh", bypassModel)
	protected := p.git(p.dir, "rev-parse", "main:.github")
	p.up()
	ids := map[string]string{}
	files := map[string]string{}
	for i, name := range []string{"plan-dot", "plan-dotdot", "plan-case", "dot", "dotdot", "case", "link",
		"through-link", "rename", "rename-away", "sed", "late-security", "late-archive"} {
		files[name] = string(rune('a' + i))
		ids[name] = p.add(name+" "+files[name], "--pool", "fixer")
	}
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			late := strings.HasPrefix(name, "late-")
			done := isAsked
			if late {
				done = isClosed
			}
			p := p
			f := *p.fleet
			f.t = t
			p.fleet = &f
			d := p.await(id, "done", done)
			first := d.Attempts[0].Outcome
			switch {
			case !late:
				stage := "ended in implement"
				if strings.HasPrefix(name, "plan-") {
					stage = "ended in plan"
				}
				if first.Kind != outcome.Escalated || first.Context.Obstacle.Kind != outcome.GuardDenied ||
					!strings.HasSuffix(first.Context.Approach, stage) || p.merged(id) != 0 {
					t.Errorf("%+v", first)
				}
			case name == "late-security": // the change is no longer what was tested
				if len(d.Attempts) != 2 || first.Context == nil ||
					first.Context.Obstacle.Kind != outcome.GuardDenied {
					t.Errorf("%+v", d.Attempts)
				}
			case len(d.Attempts) != 1:
				t.Errorf("%+v", d.Attempts)
			}
			if _, err := os.Stat(filepath.Join(p.desk, name+"-wrote")); late && err != nil {
				t.Errorf("the process has written nothing: %v", err)
			}
			if got := p.git(p.dir, "rev-parse", "main:.github"); got != protected {
				t.Error(".github was changed")
			}
			want := "old"
			if late {
				want = "old\nnew"
			}
			if got := p.git(p.dir, "show", "main:"+files[name]+".txt"); got != want {
				t.Errorf("merged: %q", got)
			}
		})
	}
	if out := p.git(p.dir, "ls-tree", "-r", "--name-only", "main"); strings.Contains(strings.ToLower(out), "github/x") {
		t.Errorf("%s", out)
	}
}

// Each worktree is set up before the stages, those of the checks, too. A set-up that fails ends the attempt.
func TestPipelineSetUp(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `set_up = "./setup.sh"`, "ports = 2")
	p.script("setup.sh", "#!/bin/sh\n"+
		"[ -e \"$DESK/works\" ] || { echo 'no network'; : >\"$DESK/works\"; exit 3; }\necho \"$PWD $COPPICE_PORTS\" >deps\n")
	p.script("check.sh", "#!/bin/sh\n[ \"$(cat deps)\" = \"$PWD $COPPICE_PORTS\" ] || exit 1\n"+
		"case $COPPICE_PORTS in \"$COPPICE_PORT \"2????) ;; *) exit 1 ;; esac\nif grep bad *.txt; then exit 1; fi\n")
	write(t, filepath.Join(p.dir, ".gitignore"), ".coppice/\ndeps\n")
	p.git(p.dir, "commit", "-qam", "ignore")
	p.up()
	for _, c := range []struct{ title, want string }{
		{"edit a", "exit code 3: no network"},
		{"fail b", "fails after 0 fixes"}, // the tests ran without the change, too, and passed
	} {
		d := p.await(p.add(c.title, "--pool", "fixer"), "done", isClosed)
		first := d.Attempts[0].Outcome
		if len(d.Attempts) != 2 || first.Kind != outcome.Retryable ||
			first.Context.Obstacle.Kind != outcome.VerificationFailed ||
			!strings.Contains(first.Context.Obstacle.Description, c.want) {
			t.Errorf("%s: %+v", c.title, d.Attempts)
		}
	}
	if out := p.git(p.dir, "ls-tree", "-r", "--name-only", "main"); strings.Contains(out, "deps") {
		t.Errorf("%s", out)
	}
	p.wantClean()
}

// The command of the stage release gets the change, and its URL is the evidence. Nothing is merged.
func TestPipelineProposes(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `release = "./release.sh"`)
	p.script("release.sh", "#!/bin/sh\ncat >\"$DESK/change\"\necho 'created https://example.org/pull/7'\n")
	p.up()
	id := p.add("edit a", "--pool", "fixer")
	d := p.await(id, "done", isClosed)
	text, err := os.ReadFile(filepath.Join(p.desk, "change"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Task, Title, Branch, Commit, Base, Summary string
		Attempt                                    int
		Totals                                     struct{ Files, Added, Deleted int }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if got.Task != id || got.Title != "edit a" || got.Attempt != 1 || got.Totals.Files != 1 || got.Totals.Added != 1 ||
		got.Totals.Deleted != 0 || got.Summary != "edited a" || got.Base != p.git(p.dir, "rev-parse", "main") ||
		got.Commit != p.git(p.dir, "rev-parse", got.Branch) {
		t.Errorf("%s", text)
	}
	e := d.Attempts[0].Outcome.Evidence
	if e == nil || e.PullRequest != "https://example.org/pull/7" || e.Commit != got.Commit || p.merged(id) != 0 {
		t.Errorf("%+v", e)
	}
	if out := p.git(p.dir, "diff", "--stat", "main.."+got.Branch); !strings.Contains(out, "a.txt | 1 +") {
		t.Errorf("%s", out)
	}
}

// A stage is skipped for the tasks that its rule matches, and for no other.
func TestPipelineSkips(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 2, `security = { command = "./model.sh", skip_if = { labels = ["trivial"] } }`,
		`plan = { command = "./model.sh", skip_if = { labels = ["trivial"] } }`)
	p.up()
	trivial := p.add("open a", "--pool", "fixer", "--label", "trivial,x")
	other := p.add("open b", "--pool", "fixer", "--label", "x")
	d := p.await(trivial, "done", isClosed)
	if len(d.Attempts) != 1 || p.merged(trivial) != 1 {
		t.Errorf("%+v", d)
	}
	for _, stage := range []string{"plan", "security"} {
		if _, err := os.Stat(filepath.Join(p.desk, "prompts", trivial+"-"+stage+"-1")); err == nil {
			t.Errorf("%s was not skipped", stage)
		}
	}
	if d := p.await(other, "asked", isAsked); d.Attempts[0].Outcome.Kind != outcome.Escalated || p.merged(other) != 0 {
		t.Errorf("%+v", d)
	}
	p.prompt(other, "plan", 1)
}
