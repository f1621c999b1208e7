package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
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

// night is a git repository with tests, in which the template pipeline can be written.
type night struct{ pipelineProject }

// newNight makes the repository in the directory of a fleet. Its tests fail if a file has the word bad.
func newNight(f *fleet) night {
	f.t.Helper()
	exectest.Need(f.t, "git")
	exectest.Need(f.t, "make")
	n := night{pipelineProject{gcProject: gcProject{fleet: f}}}
	if err := os.Remove(filepath.Join(n.dir, "coppice.toml")); err != nil {
		n.t.Fatal(err)
	}
	write(n.t, filepath.Join(n.dir, "Makefile"), "test:\n\t@if grep -n bad *.txt; then exit 1; fi\n")
	write(n.t, filepath.Join(n.dir, "old.txt"), "old\n")
	n.sh("git init -q -b main; git config user.name t; git config user.email t@t.invalid; git add -A; " +
		"git commit -qm first")
	return n
}

// replace replaces texts of coppice.toml, all of which must be there, and commits it.
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
	n.sh("git add -A; git commit -qm pipeline")
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

// The guide shows the file of the template as it is written in a repository with a makefile.
func TestGuideNightFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Makefile"), "test:\n\ttrue\n")
	launch(t, dir, "init", "--template", "pipeline").wantExit(exitOK)
	text, err := os.ReadFile(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(guideNight(t, "toml"), string(text)) {
		t.Errorf("the guide does not show this:\n%s", text)
	}
}

// nightModel stands in for claude and codex, and writes what they write. It finds out from the title of the task what
// to do: a file is the last word. Each call uses 7 tokens.
const nightModel = `#!/bin/sh
prompt=$(cat)
title=$(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
last=${title##* }
again() { case $prompt in *'What has failed before'*) return 0 ;; esac; return 1; }
say() { # an answer, escaped, and its tokens
	case $0 in
	*/claude)
		printf '{"type":"system","subtype":"init","session_id":"s"}\n'
		printf '%s\n' '{"type":"assistant","message":{"id":"m","model":"opus","content":[{"type":"text","text":"'"$1"'"}],"usage":{"input_tokens":'"${2:-5}"',"output_tokens":2}}}'
		[ -z "$2" ] || exec sleep 1000
		printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","usage":{"input_tokens":5,"output_tokens":2}}' ;;
	*)
		printf '{"type":"thread.started","thread_id":"t"}\n{"type":"turn.started"}\n'
		printf '%s\n' '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"'"$1"'"}}'
		printf '%s\n' '{"type":"turn.completed","usage":{"input_tokens":'"${2:-5}"',"cached_input_tokens":0,"output_tokens":2}}'
		[ -z "$2" ] || exec sleep 1000 ;;
	esac
}
plan() { say '{\"steps\":[{\"name\":\"edit\",\"instructions\":\"edit it\",\"files\":[\"'"$last"'.txt\"]}]}'; }
edit() { echo "$1" >>"$last.txt"; say '{\"summary\":\"edited '"$last"'\",\"commit_subject\":\"Edit '"$last"'\"}'; }
case $COPPICE_STAGE:$title in
plan:Divide*) say '{\"subtasks\":[{\"id\":\"one\",\"objective\":\"edit i\"},{\"id\":\"two\",\"objective\":\"edit j\",\"depends_on\":[\"one\"]}]}' ;;
plan:Spend*) say 'I read all files, again and again' 3000000 ;;
plan:*) plan ;;
implement:Fail*) if again; then edit new; else edit bad; fi ;;
implement:Open*) if again; then edit new; else edit backdoor; fi ;;
implement:*) edit new ;;
security:*)
	case $prompt in
	*+backdoor*) say '{\"verdict\":\"block\",\"findings\":[\"it has a backdoor\"]}' ;;
	*) say '{\"verdict\":\"pass\",\"findings\":[]}' ;;
	esac ;;
esac
`

// The commands of the guide work as shown, on ten tasks, with stand-ins for claude and codex: what passes is merged,
// what fails is tried again with what was learned, and people are asked about the rest.
func TestGuideNight(t *testing.T) {
	t.Parallel()
	n := newNight(newFleet(t))
	bin := t.TempDir()
	for _, name := range []string{"claude", "codex"} {
		exectest.Write(t, filepath.Join(bin, name), nightModel)
	}
	n.env = append(n.env, "PATH="+bin+":"+os.Getenv("PATH"))
	commands := guideNight(t, "sh")
	if len(commands) != 3 {
		t.Fatalf("%d blocks of commands: %q", len(commands), commands)
	}
	first, evening, morning := commands[0], commands[1], commands[2]
	before, after, ok := strings.Cut(first, "coppice validate")
	if !ok {
		t.Fatalf("%s", first)
	}
	n.sh(before)
	// Many of these tasks fail at once, and the commands need no pause between their starts.
	n.replace("[[agent]]\nname = \"coder\"", "[daemon]\nmax_failed_tasks = 0\n\n[[agent]]\nname = \"coder\"")
	n.sh("coppice validate" + after)
	n.sh(evening)
	merged := []string{"Edit a", "Edit b", "Edit c", "Edit d", "Fail e", "Open f"}
	ids := map[string]string{}
	for _, title := range append(merged, "Divide the work", "Spend g") {
		ids[title] = n.add(title, "--pool", "coder")
	}
	all, err := task.List.Call(t.Context(), n.client(), task.ListRequest{Filter: task.Filter{All: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		ids[x.Title] = x.ID
	}
	const login, update = "The login button does nothing on Safari", "Update the dependencies"

	d := n.await(ids[update], "asked", isAsked)
	if !strings.Contains(d.Task.Question.Text, "Review the change on the branch review/") || n.merged(d.Task.ID) != 0 {
		t.Errorf("%+v", d.Task)
	}
	n.do("task", "approve", d.Task.ID)
	d = n.await(ids["Open f"], "asked", isAsked)
	if !strings.Contains(d.Task.Question.Text, "it has a backdoor") || n.merged(d.Task.ID) != 0 {
		t.Errorf("%+v", d.Task)
	}
	n.do("task", "approve", d.Task.ID, "--reason", "without the backdoor")
	for _, title := range append(merged, login, update) {
		d := n.await(ids[title], "done", isClosed)
		if d.Task.Outcome != task.Completed || n.merged(d.Task.ID) != 1 {
			t.Errorf("%s: merged %d times: %+v", title, n.merged(d.Task.ID), d.Task)
		}
	}
	if d := n.detail(ids["Fail e"]); len(d.Attempts) != 2 ||
		d.Attempts[0].Outcome.Context.Obstacle.Kind != outcome.VerificationFailed {
		t.Errorf("%+v", d.Attempts)
	}
	if d := n.await(ids["Divide the work"], "done", isClosed); len(d.Children) != 2 ||
		n.merged(d.Children[0])+n.merged(d.Children[1]) != 2 {
		t.Errorf("%+v", d)
	}
	n.await(ids["Spend g"], "parked", func(x task.Task) bool { return x.Status == task.Parked })
	eventually(t, "the alarm", func() bool {
		alarms, _ := os.ReadFile(filepath.Join(n.dir, ".coppice", "alarms.jsonl"))
		return strings.Contains(string(alarms), `"task.parked"`)
	})
	n.do("gc") // what the attempt has left that was killed
	n.wantClean()

	out := n.sh(morning)
	if strings.Contains(out, "restart loop") {
		t.Errorf("workers that start again for the next task are in a restart loop:\n%s", out)
	}
	for _, want := range []string{`closed +pool coder +\S+ +The login button`, `1 task parked`, `11 completed`,
		`Edit Safari`, ` is down`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in what the morning says:\n%s", want, out)
		}
	}
	var files []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "i", "j", "Safari", "dependencies"} {
		files = append(files, fmt.Sprintf("%s.txt:new\n", name))
	}
	slices.Sort(files)
	got := strings.SplitAfter(n.sh("grep '' *.txt | grep -v ^old"), "\n")
	slices.Sort(got)
	if got = got[1:]; !slices.Equal(got, files) {
		t.Errorf("%q", got)
	}
}
