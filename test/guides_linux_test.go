package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/task"
)

// guideNight returns the blocks of docs/guides/night.md of a language.
func guideNight(t *testing.T, language string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "night.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range fenced.FindAllStringSubmatch(string(page), -1) {
		if b[1] == language {
			blocks = append(blocks, b[2])
		}
	}
	return blocks
}

// night is a git repository with the files of the template night.
type night struct{ *fleet }

// newNight makes a repository in the directory of a fleet, with the files of the template, in which replacements of
// coppice.toml shorten what takes long in a real night.
func newNight(f *fleet, replacements ...string) night {
	f.t.Helper()
	n := night{f}
	n.sh("git init -q -b main; git config user.name t; git config user.email t@t.invalid; " +
		"git commit -q --allow-empty -m first; rm coppice.toml; coppice init --template night")
	n.replace(replacements...)
	return n
}

// replace replaces texts of coppice.toml, all of which must be there.
func (n night) replace(replacements ...string) {
	n.t.Helper()
	file := filepath.Join(n.dir, "coppice.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		n.t.Fatal(err)
	}
	toml := string(text)
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(toml, replacements[i]) {
			n.t.Fatalf("coppice.toml has no %q", replacements[i])
		}
		toml = strings.ReplaceAll(toml, replacements[i], replacements[i+1])
	}
	write(n.t, file, toml)
}

// withoutPauses makes agents start again at once.
func withoutPauses() []string {
	return []string{
		`base = "10s", cap = "10m"`, `base = "50ms", cap = "50ms"`,
		`patrol_interval = "10s"`, `patrol_interval = "200ms"` + "\nmax_failed_tasks = 0",
	}
}

// sh runs a script in the repository.
func (n night) sh(script string) string {
	n.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = n.dir
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), n.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// tasks returns all tasks by their titles.
func (n night) tasks() map[string]task.Task {
	n.t.Helper()
	all, err := task.List.Call(n.t.Context(), n.client(), task.ListRequest{Filter: task.Filter{All: true}})
	if err != nil {
		n.t.Fatal(err)
	}
	byTitle := map[string]task.Task{}
	for _, x := range all {
		byTitle[x.Title] = x
	}
	return byTitle
}

// ended waits until no task is active.
func (n night) ended() {
	n.t.Helper()
	eventually(n.t, "the end of all tasks", func() bool {
		return n.do("task", "ls", "--status", "open,in_progress,deferred", "--count") == "0\n"
	})
}

// The guide shows the files of the template as they are written.
func TestGuideNightFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	launch(t, dir, "init", "--template", "night").wantExit(exitOK)
	for name, blocks := range map[string][]string{
		"coppice.toml": guideNight(t, "toml"), "night/work.sh": guideNight(t, "sh"),
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		shown := false
		for _, b := range blocks {
			shown = shown || b == string(text)
		}
		if !shown {
			t.Errorf("the guide does not show %s as it is", name)
		}
	}
}

// stubs are programs in place of claude and codex. They crash, lie, leave changes, break tests or commit, as the task
// says, and add a line to the file calls.
func (n night) stubs() {
	n.t.Helper()
	bin := filepath.Join(n.dir, "bin")
	for name, result := range map[string]string{
		"claude": `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":3,` +
			`"output_tokens":4}}`,
		"codex": `{"type":"turn.completed","usage":{"input_tokens":3,"cached_input_tokens":0,"output_tokens":4}}`,
	} {
		if err := os.MkdirAll(bin, 0o755); err != nil {
			n.t.Fatal(err)
		}
		exectest.Write(n.t, filepath.Join(bin, name), fmt.Sprintf(`#!/bin/sh
echo "%s $*" >>%s/calls
prompt=$(cat)
case "$prompt" in
*Safari*) [ -e %[2]s/once ] || { : >%[2]s/once; echo out of memory >&2; exit 1; } ;;
*dependencies*) echo '%[3]s'; exit 0 ;;
*untidy*) echo x >left ;;
*broken*) echo x >broken; git add broken ;;
esac
git commit -q --allow-empty -m "by %[1]s"
echo '%[3]s'
`, name, n.dir, result))
	}
	n.env = append(n.env, "PATH="+bin+":"+os.Getenv("PATH"))
}

// The commands of the guide work as shown, with stand-ins for claude and codex. A task is closed only if there is a
// commit, nothing is left, and the tests pass.
func TestGuideNight(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "git")
	n := night{newFleet(t)}
	n.stubs()
	commands := guideNight(t, "sh")
	if len(commands) != 7 {
		t.Fatalf("%d blocks of commands: %q", len(commands), commands)
	}
	first, _, _, _, evening, morning, merge := commands[0], commands[1], commands[2], commands[3], commands[4],
		commands[5], commands[6]
	before, after, ok := strings.Cut(first, "coppice validate")
	if !ok {
		t.Fatalf("%s", first)
	}
	n.sh("rm coppice.toml; git init -q -b main; git config user.name t; git config user.email t@t.invalid; " +
		"git commit -q --allow-empty -m first; " + before)
	n.replace(withoutPauses()...)
	exectest.Write(t, filepath.Join(n.dir, "night", "check.sh"),
		"#!/bin/sh\n! [ -e broken ] || { echo it is broken; exit 1; }\n")
	n.sh("coppice doctor; coppice validate" + after)
	n.sh(evening)
	n.do("task", "add", "Something untidy", "--pool", "coder")
	n.do("task", "add", "Something broken", "--pool", "coder")
	n.ended()

	tasks := n.tasks()
	for title, want := range map[string]string{
		"The login button does nothing on Safari": "closed: commit [0-9a-f]{40}",
		"Update the dependencies":                 "parked: claimed 3 times .*: (claude|codex) ended without a commit",
		"Something untidy":                        `parked: claimed 3 times .*: changes are not committed: \?\? left`,
		"Something broken":                        "parked: claimed 3 times .*: night/check.sh failed: it is broken",
	} {
		x := tasks[title]
		if got := fmt.Sprintf("%s: %s", x.Status, x.Reason); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: %s", title, got)
		}
	}
	eventually(t, "the alarms", func() bool {
		alarms, _ := os.ReadFile(filepath.Join(n.dir, "night", "alarms.jsonl"))
		return strings.Count(string(alarms), `"task.parked"`) == 3
	})
	out := n.sh(morning)
	for _, want := range []string{`closed +pool coder +\S+ +The login button`, `3 tasks parked`, `by (claude|codex)`,
		`night is down`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in what the morning says:\n%s", want, out)
		}
	}
	id := tasks["The login button does nothing on Safari"].ID
	n.sh(strings.ReplaceAll(merge, "night-ID", id))
	if log := n.sh("git log --format=%s"); !strings.HasPrefix(log, "by ") {
		t.Errorf("the log: %s", log)
	}
	calls, _ := os.ReadFile(filepath.Join(n.dir, "calls"))
	if got := strings.Count(string(calls), "\n"); got != 11 { // two for the login, three for each of the others
		t.Errorf("%d calls:\n%s", got, calls)
	}
	n.sh(evening) // the next one
	n.ended()
}

// The night runs with fakes, as the guide says: neither a used-up quota nor an outage of the server costs a task, and a
// lie closes none.
func TestFakeNight(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "git")
	r := newFakeRun(t)
	n := newNight(r.fleet, withoutPauses()...)
	commands := guideNight(t, "sh")
	try, remove := commands[2], commands[3]
	plan := regexp.MustCompile(`--fake '(.*)'`).FindStringSubmatch(try)
	if plan == nil {
		t.Fatal(try)
	}
	// All agents meet the quota, and none crashes, so that the number of failed claims is certain.
	shorter := strings.NewReplacer("+30s", "+5s", "codex:crash%30", "codex:quota+5s").Replace(plan[1])
	before := listing(t, r.home)
	for _, c := range []struct {
		plan, status string
		failed       int
	}{{shorter, "closed", 0}, {"overloaded+2s,commit", "closed", 0}, {"coder:liar,codex:ok", "parked", 3}} {
		run := r.run("--fake", c.plan+",pace=50ms")
		run.out.awaitText(t, "night * started\n")
		for i := range 3 {
			r.do("task", "add", fmt.Sprintf("work %d", i), "--pool", "coder")
		}
		r.do("patrol")
		n.ended()
		for title, x := range n.tasks() {
			if string(x.Status) != c.status || x.FailedClaims != c.failed {
				t.Errorf("%s: %s is %s, %d claims have failed: %s", c.plan, title, x.Status, x.FailedClaims, x.Reason)
			}
		}
		if parked := r.eventsOf("--type", "quota.parked"); (len(parked) > 0) != strings.Contains(c.plan, "quota") {
			t.Errorf("%s: %v\n%s", c.plan, parked, run.out)
		}
		run.signal(syscall.SIGINT)
		run.wantExit(exitSignalled + int(syscall.SIGINT))
		commits := strings.Count(n.sh("git log --format=%s --branches='fake-*' --not HEAD"), "An empty commit of a fake of ")
		if expected := map[string]int{"closed": 3}[c.status]; commits != expected {
			t.Errorf("%s: %d commits, expected %d", c.plan, commits, expected)
		}
		n.sh(remove)
		if left := n.sh("git branch; git worktree list"); strings.Contains(left, "fake-") {
			t.Errorf("left: %s", left)
		}
	}
	r.untouched(before)
}
