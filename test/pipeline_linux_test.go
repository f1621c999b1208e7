package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/task"
)

// pipelineModel is what stages call in place of a model. It finds out from the title of the task what to do, keeps its
// prompts, and edits the files of the worktree.
const pipelineModel = `#!/bin/sh
prompt=$(cat)
printf '%s\n' "$prompt" >"$DESK/prompts/$COPPICE_TASK-$COPPICE_STAGE-$COPPICE_ATTEMPT"
title=$(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
last=${title##* } # the file
plan() { printf 'The plan is:\n{"steps":[{"name":"edit","instructions":"edit it","files":["%s"]}]}\n' "$1"; }
edit() { echo "$1" >>"$last.txt"; echo '{"summary":"edited '"$last"'","commit_subject":"Edit '"$last"'"}'; }
again() { case $prompt in *'What has failed before'*) return 0 ;; esac; return 1; }
case $COPPICE_STAGE:$title in
security:*) # it gets the diff
	case $prompt in *+backdoor*) echo 'it has a backdoor'; exit 1 ;; esac ;;
plan:divide*) echo '{"subtasks":[{"id":"one","objective":"edit i"},{"id":"two","objective":"edit j","depends_on":["one"]}]}' ;;
plan:protect*) plan .github/ci.yml ;;
plan:wait*) echo '{"obstacle":{"kind":"external_dependency","service":"the registry","description":"it is down"}}' ;;
plan:babble*) if again; then plan "$last.txt"; else echo 'I would first read {the code} and then'; fi ;;
plan:wide*) if again; then plan "$last.txt"; else plan 'a.txt","b.txt","c.txt'; fi ;;
plan:*) plan "$last.txt" ;;
implement:fail*) if again; then edit new; else edit bad; fi ;;
implement:fix*) case $prompt in *EXACT*) sed -i s/bad/good/ "$last.txt" ;; *) edit bad ;; esac ;;
implement:nothing*) again && edit new ;;
implement:sneak*) if again; then edit new; else mkdir -p .github; echo x >.github/ci.yml; fi ;;
implement:blast*) if again; then edit new; else for f in a b c; do echo x >>$f.txt; done; fi ;;
implement:hang*) if ! again; then echo half >>"$last.txt"; : >"$DESK/hangs"; read x <"$DESK/pipe"; fi; edit new ;;
implement:break*) # the worktree
	[ -e "$DESK/broken" ] || { : >"$DESK/broken"; rm -f .git; }; edit new ;;
implement:open*) echo backdoor >>"$last.txt" ;;
implement:pause*) : >"$DESK/pauses"; read x <"$DESK/pipe2"; edit new ;;
*) edit new ;;
esac
`

// pipelineProject is a project with a pipeline in a git repository.
type pipelineProject struct {
	gcProject
	desk string // where the model keeps its prompts
}

// newPipeline returns a project with files a.txt to z.txt and a pipeline with some keys.
func newPipeline(t *testing.T, workers int, keys ...string) pipelineProject {
	t.Helper()
	desk := t.TempDir()
	toml := fmt.Sprintf(`[daemon]
max_failed_tasks = 0

[[agent]]
name = "fixer"
command = "./model.sh"
env = { DESK = %q }
read_write_paths = [%[1]q]

[agent.pool]
min = %d

[agent.pipeline]
protected = [".github"]
fix_attempts = 0
test = "./check.sh"
%s
`, desk, workers, strings.Join(keys, "\n"))
	dir := project(t, toml)
	p := pipelineProject{gcProject: gcProject{fleet: fleetOf(t, dir)}, desk: desk}
	for name, text := range map[string]string{
		"model.sh": pipelineModel, "check.sh": "#!/bin/sh\nif grep -n bad *.txt; then echo 'a file is bad'; exit 1; fi\n",
	} {
		write(t, filepath.Join(dir, name), text)
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		write(t, filepath.Join(dir, string(c)+".txt"), "old\n")
	}
	if err := os.Mkdir(filepath.Join(desk, "prompts"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "pipe2"} {
		if err := syscall.Mkfifo(filepath.Join(desk, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, ".gitignore"), ".coppice/\n")
	p.git(dir, "init", "-q", "-b", "main")
	p.git(dir, "add", "-A")
	p.git(dir, "commit", "-qm", "first")
	return p
}

// prompt returns the prompt of a stage.
func (p pipelineProject) prompt(id, stage string, attempt int) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.desk, "prompts", fmt.Sprintf("%s-%s-%d", id, stage, attempt)))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// await waits until a task is as it should be.
func (p pipelineProject) await(id, what string, done func(task.Task) bool) task.Detail {
	p.t.Helper()
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s\n%s", p.do("task", "show", id), p.do("logs", "-n", "100"))
		}
	}()
	eventually(p.t, id+": "+what, func() bool { return done(p.task(id)) })
	return p.detail(id)
}

func isClosed(t task.Task) bool { return t.Status == task.Closed }
func isAsked(t task.Task) bool  { return t.Question != nil }

// merged returns how often a task was merged into main.
func (p pipelineProject) merged(id string) int {
	out := p.git(p.dir, "log", "--format=%(trailers:key=Coppice-Task,valueonly)", "main")
	return len(regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(id)+`$`).FindAllString(out, -1))
}

// wantClean checks that no worktree and no change is left.
func (p pipelineProject) wantClean() {
	p.t.Helper()
	if out := p.git(p.dir, "worktree", "list"); strings.Count(out, "\n") > 0 {
		logs, _ := filepath.Glob(filepath.Join(p.dir, ".coppice", "run", "*", logfile.Name))
		for _, name := range logs { // they say why
			text, _ := os.ReadFile(name)
			out += "\n" + name + ":\n" + string(text)
		}
		p.t.Errorf("worktrees are left:\n%s", out)
	}
	if out := p.git(p.dir, "status", "--porcelain"); out != "" {
		p.t.Errorf("the work tree of the user has changes:\n%s", out)
	}
}

// Tasks go through a pipeline to the merged result. Each failure has a context, and the next prompt has it.
func TestPipeline(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 2)
	first := map[string]outcome.ObstacleKind{ // by title: the obstacle of the first attempt
		"edit a": "", "fail b": outcome.VerificationFailed, "nothing c": outcome.VerificationFailed,
		"blast d": outcome.GuardDenied, "babble e": outcome.SchemaMismatch, "wide f": outcome.GuardDenied,
	}
	p.up()
	ids := map[string]string{}
	for title := range first {
		ids[title] = p.add(title, "--pool", "fixer")
	}
	for title, obstacle := range first {
		id := ids[title]
		d := p.await(id, "done", isClosed)
		last := d.Attempts[len(d.Attempts)-1].Outcome
		if d.Task.Outcome != task.Completed || last.Kind != outcome.Completed || last.Evidence == nil ||
			last.Evidence.Branch != "main" || last.Evidence.Files != 1 || last.Evidence.Insertions != 1 ||
			len(last.Evidence.Checks) != 1 {
			t.Errorf("%s: %+v, %+v", title, d.Task, last)
		}
		if n := p.merged(id); n != 1 {
			t.Errorf("%s was merged %d times", title, n)
		}
		parked := fmt.Sprintf("refs/coppice/parked/%s-%d", id, len(d.Attempts))
		if out := p.git(p.dir, "for-each-ref", parked); out != "" {
			t.Errorf("%s: what was merged is kept as well: %s", title, out)
		}
		file := title[len(title)-1:] + ".txt"
		if text, err := os.ReadFile(filepath.Join(p.dir, file)); err != nil || string(text) != "old\nnew\n" {
			t.Errorf("%s: %q, %v", title, text, err)
		}
		if obstacle == "" {
			if len(d.Attempts) != 1 {
				t.Errorf("%s: %d attempts", title, len(d.Attempts))
			}
			continue
		}
		if len(d.Attempts) != 2 || d.Attempts[0].Outcome.Context == nil ||
			d.Attempts[0].Outcome.Context.Obstacle.Kind != obstacle {
			t.Errorf("%s: %+v", title, d.Attempts[0].Outcome)
			continue
		}
		if prompt := p.prompt(id, "plan", 2); !strings.Contains(prompt, "Attempt 1 at "+id+" ended as retryable") {
			t.Errorf("%s: the second prompt lacks the first failure:\n%s", title, prompt)
		}
	}
	// Seed 003, section 1, rest_for_one: what comes after the stage that has failed did not begin.
	for title, stage := range map[string]string{"babble e": "implement", "wide f": "implement", "blast d": "security"} {
		if _, err := os.Stat(filepath.Join(p.desk, "prompts", ids[title]+"-"+stage+"-1")); err == nil {
			t.Errorf("%s: the stage %s has begun", title, stage)
		}
	}
	if d := p.detail(ids["fail b"]); !strings.Contains(d.Attempts[0].Outcome.Context.Obstacle.Description, "a file is bad") {
		t.Errorf("%+v", d.Attempts[0].Outcome)
	}
	p.wantClean()
	p.do("down")
}

// What a pipeline may not decide is asked, and goes on with the answer.
func TestPipelineAsks(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, "[[agent.pipeline.modes]]", `mode = "evolution"`, `labels = ["feature"]`)
	p.up()
	review := p.add("edit a", "--pool", "fixer", "--label", "feature")
	d := p.await(review, "asked", isAsked)
	if d.Task.Question == nil || !strings.Contains(d.Task.Question.Text, "Review the change on the branch review/") ||
		p.merged(review) != 0 {
		t.Errorf("%+v", d.Task)
	}
	branch := d.Attempts[0].Outcome.Evidence.Branch
	if out := p.git(p.dir, "diff", "--stat", "main.."+branch); !strings.Contains(out, "a.txt | 1 +") {
		t.Errorf("%s", out)
	}
	p.do("task", "approve", review)
	d = p.await(review, "done", isClosed)
	if d.Task.Outcome != task.Completed || p.merged(review) != 1 || len(d.Attempts) != 2 {
		t.Errorf("%+v", d)
	}

	// What a person sets on the task counts for more than the rules of the file.
	set := p.add("edit f", "--pool", "fixer", "--mode", "evolution")
	p.await(set, "asked", isAsked)
	p.do("task", "reject", set)
	set = p.add("edit g", "--pool", "fixer", "--label", "feature", "--mode", "maintenance")
	if d := p.await(set, "done", isClosed); p.merged(set) != 1 || len(d.Attempts) != 1 {
		t.Errorf("%+v", d)
	}

	for title, kind := range map[string]outcome.Kind{
		"protect b": outcome.Escalated, "sneak c": outcome.Escalated, "open d": outcome.Escalated, "wait e": outcome.Blocked,
	} {
		id := p.add(title, "--pool", "fixer")
		d := p.await(id, "asked", isAsked)
		if d.Attempts[0].Outcome.Kind != kind || d.Task.Question == nil || p.merged(id) != 0 {
			t.Errorf("%s: %+v, %+v", title, d.Task, d.Attempts[0].Outcome)
		}
		if strings.HasPrefix(title, "sneak") {
			p.do("task", "approve", id, "--reason", "leave CI alone")
			p.await(id, "done", isClosed)
			if prompt := p.prompt(id, "implement", 2); !strings.Contains(prompt, "leave CI alone") {
				t.Errorf("%s", prompt)
			}
			continue
		}
		p.do("task", "reject", id)
	}
	p.wantClean()
}

// Seed 003, section 1, one_for_all: when the worktree is damaged all stages begin again, and none is blamed.
func TestPipelineDamagedWorktree(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1)
	p.up()
	id := p.add("break a", "--pool", "fixer")
	d := p.await(id, "done", isClosed)
	if len(d.Attempts) != 1 || d.Task.Outcome != task.Completed || p.merged(id) != 1 {
		t.Errorf("%+v", d)
	}
	if out := p.do("logs", "fixer-1"); strings.Count(out, "pipeline: plan begins") != 2 {
		t.Errorf("%s", out)
	}
	p.wantClean()
}

// Seed 003, section 2, decomposed: the parent waits for its subtasks, which go through the same stages.
func TestPipelineDivides(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 2)
	p.up()
	id := p.add("divide the work", "--pool", "fixer")
	d := p.await(id, "done", isClosed)
	if len(d.Children) != 2 || d.Task.Outcome != task.Completed {
		t.Fatalf("%+v", d)
	}
	for _, child := range d.Children {
		if p.merged(child) != 1 {
			t.Errorf("%s was merged %d times", child, p.merged(child))
		}
		p.prompt(child, "plan", 1)
		p.prompt(child, "security", 1)
	}
	p.wantClean()
}

// Seed 003, section 4: after a crash the next attempt begins in a clean worktree, and what the crashed one has left is
// kept. A daemon that is killed changes nothing.
func TestPipelineCrash(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 2)
	p.up()
	hangs, pauses := p.add("hang a", "--pool", "fixer"), p.add("pause b", "--pool", "fixer")
	eventually(t, "both at work", func() bool {
		_, err := os.Stat(filepath.Join(p.desk, "hangs"))
		_, err2 := os.Stat(filepath.Join(p.desk, "pauses"))
		return err == nil && err2 == nil
	})
	exectest.Signal(t, p.node(p.task(hangs).Claim.By).PID, syscall.SIGKILL)
	d := p.await(hangs, "done", isClosed)
	if len(d.Attempts) != 2 || d.Attempts[0].ReportedBy != "controller" ||
		d.Attempts[0].Outcome.Context.Obstacle.Kind != outcome.Crash || p.merged(hangs) != 1 {
		t.Errorf("%+v", d.Attempts)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || string(text) != "old\nnew\n" {
		t.Errorf("%q, %v: not from a clean worktree", text, err)
	}
	if out := p.git(p.dir, "for-each-ref", "refs/coppice/parked/"); !strings.Contains(out, "parked/"+hangs) {
		t.Errorf("the work of the crashed attempt is lost: %q", out)
	}

	p.crash()
	write(t, filepath.Join(p.desk, "pipe2"), "go on\n")
	eventually(t, "the merge", func() bool { return p.merged(pauses) == 1 })
	p.up()
	if d := p.await(pauses, "done", isClosed); len(d.Attempts) != 1 || d.Task.Outcome != task.Completed {
		t.Errorf("%+v", d)
	}
	p.wantClean()
}

// A worker that is killed after its merge and before its report: the next attempt finds the merge, and makes none.
func TestPipelineMergesOnce(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `archive = "./archive.sh"`)
	write(t, filepath.Join(p.dir, "archive.sh"), "#!/bin/sh\n: >\"$DESK/archives\"\nread x <\"$DESK/pipe\"\n")
	if err := os.Chmod(filepath.Join(p.dir, "archive.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "archive")
	p.up()
	id := p.add("edit a", "--pool", "fixer")
	eventually(t, "the merge", func() bool {
		_, err := os.Stat(filepath.Join(p.desk, "archives"))
		return err == nil
	})
	exectest.Signal(t, p.node(p.task(id).Claim.By).PID, syscall.SIGKILL)
	d := p.await(id, "done", isClosed)
	if len(d.Attempts) != 2 || d.Attempts[1].Outcome.Kind != outcome.Completed || p.merged(id) != 1 {
		t.Errorf("%+v", d)
	}
	if _, err := os.Stat(filepath.Join(p.desk, "prompts", id+"-plan-2")); err == nil {
		t.Error("what was merged was planned again")
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || string(text) != "old\nnew\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// A person works in the repository at the same time: nothing of that is lost or merged.
func TestPipelineBesidePerson(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1)
	write(t, filepath.Join(p.dir, "z.txt"), "mine\n")
	write(t, filepath.Join(p.dir, "new.txt"), "mine, too\n")
	p.up()
	id := p.add("edit a", "--pool", "fixer")
	p.await(id, "done", isClosed)
	if out := p.git(p.dir, "status", "--porcelain"); out != "M z.txt\n?? new.txt" {
		t.Errorf("%q", out)
	}
	clash := p.add("edit z", "--pool", "fixer")
	d := p.await(clash, "asked", isAsked)
	if !strings.Contains(d.Task.Question.Text, "z.txt") || p.merged(clash) != 0 {
		t.Errorf("%+v", d.Task)
	}
	p.git(p.dir, "stash")
	p.do("task", "approve", clash)
	p.await(clash, "done", isClosed)
	p.git(p.dir, "checkout", "-q", "stash@{0}", "--", "z.txt")
	if text, err := os.ReadFile(filepath.Join(p.dir, "z.txt")); err != nil || string(text) != "mine\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Stages cannot act as their worker, nor write outside of their worktree.
func TestPipelineStage(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `implement = "./evil.sh"`, "plan = false", "security = false")
	write(t, filepath.Join(p.dir, "evil.sh"), `#!/bin/sh
exec 2>&1 >"$DESK/said"
echo "token: ${COPPICE_TOKEN-none}"
tr '\0' '\n' </proc/$PPID/environ | grep TOKEN || echo 'environ: none'
coppice agent outcome completed && echo 'outcome: reported'
coppice task close "$COPPICE_TASK" && echo 'task: closed'
echo x 2>/dev/null >`+p.dir+`/a.txt && echo 'outside: written'
git commit -qam x 2>/dev/null && echo 'git: committed'
echo new >>a.txt
`)
	if err := os.Chmod(filepath.Join(p.dir, "evil.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "evil")
	p.up()
	id := p.add("edit a", "--pool", "fixer")
	p.await(id, "done", isClosed)
	said, err := os.ReadFile(filepath.Join(p.desk, "said"))
	if err != nil || !strings.Contains(string(said), "token: none") {
		t.Errorf("%s, %v", said, err)
	}
	for _, wrong := range []string{"reported", "closed", "written", "committed"} {
		if strings.Contains(string(said), ": "+wrong) {
			t.Errorf("a stage has %s something:\n%s", wrong, said)
		}
	}
	if os.Getuid() != 0 && !strings.Contains(string(said), "environ: none") {
		t.Errorf("a stage has read the token:\n%s", said)
	}
}

// pipelineClaude is a model that writes what claude does. Each call uses 7 tokens.
const pipelineClaude = `#!/bin/sh
prompt=$(cat)
title=$(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
last=${title##* }
say() { # a text, escaped
	echo '{"type":"system","subtype":"init","session_id":"'$$'"}'
	echo '{"type":"assistant","message":{"id":"m","model":"opus","content":[{"type":"text","text":"'"$1"'"}],"usage":{"input_tokens":5,"output_tokens":2}}}'
	echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","usage":{"input_tokens":5,"output_tokens":2}}'
}
case $COPPICE_STAGE:$title in
plan:limit*)
	if [ ! -e "$DESK/limited" ]; then
		: >"$DESK/limited"
		echo '{"type":"system","subtype":"init","session_id":"'$$'"}'
		at=$(($(date +%s) + 3))
		echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$at',"rateLimitType":"five_hour"}}'
		echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You'"'"'ve hit your 5-hour limit"}'
		exit 1
	fi ;;
plan:costly*) say 'no JSON'; exit ;;
esac
case $COPPICE_STAGE in
plan) say '{\"steps\":[{\"name\":\"edit\",\"instructions\":\"edit it\",\"files\":[\"'$last'.txt\"]}]}' ;;
implement) echo new >>$last.txt; say 'done: {\"summary\":\"edited it\"}' ;;
security) case $prompt in *'+new'*) say '{\"verdict\":\"pass\"}' ;; *) say 'nothing to review' ;; esac ;;
esac
`

// The calls of models count for their attempt. An account that is used up is no failure of the task, and a stage that
// has used its tokens asks a person.
func TestPipelineModel(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `plan = { cli = "claude", command = "./claude.sh", tokens = 7 }`,
		`implement = { cli = "claude", command = "./claude.sh" }`, `security = { cli = "claude", command = "./claude.sh" }`)
	p.edit("command = \"./model.sh\"\n", "command = \"./claude.sh\"\ncli = \"claude\"\n")
	write(t, filepath.Join(p.dir, "claude.sh"), pipelineClaude)
	if err := os.Chmod(filepath.Join(p.dir, "claude.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "claude")
	p.up()
	id := p.add("edit a", "--pool", "fixer")
	p.await(id, "done", isClosed)
	eventually(t, "its calls", func() bool { // each is counted by itself
		u := p.detail(id).Attempts[0].Used
		return u != nil && u.Calls == 3
	})
	if u := p.detail(id).Attempts[0].Used; u.Calls != 3 || u.Tokens == nil || *u.Tokens != 21 {
		t.Errorf("%+v", u)
	}

	id = p.add("limit b", "--pool", "fixer")
	d := p.await(id, "done", isClosed)
	if len(d.Attempts) != 2 || d.Attempts[0].ReportedBy != "controller" || d.Task.FailedClaims != 0 ||
		d.Attempts[0].Outcome.Context.Obstacle.Kind != outcome.UsageLimit {
		t.Errorf("%+v", d)
	}

	id = p.add("costly c", "--pool", "fixer")
	d = p.await(id, "asked", isAsked)
	if a := d.Attempts[0].Outcome; a.Kind != outcome.Escalated || a.Context.Obstacle.Kind != outcome.Budget {
		t.Errorf("%+v", a)
	}
}

// The page about pipelines works as it is written.
func TestPipelineDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "pipeline.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(t, 1)
	bin := t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(bin, "claude"): pipelineClaude, filepath.Join(p.dir, "check.sh"): "#!/bin/sh\ngrep -q new comma.txt\n",
	} {
		write(t, name, text)
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(p.dir, "Makefile"), "test:\n\t./check.sh\n")
	p.env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"), "DESK="+p.desk)
	write(t, filepath.Join(p.dir, "coppice.toml"), block(t, string(page), "toml"))
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "the page")
	p.up()
	call := regexp.MustCompile(`(?m)^coppice (task add '(.*)' --pool fixer)$`).FindStringSubmatch(string(page))
	id := p.add(call[2], "--pool", "fixer")
	if d := p.await(id, "done", isClosed); d.Task.Outcome != task.Completed || p.merged(id) != 1 {
		t.Errorf("%+v", d)
	}
}
