package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// diaryTOML returns an agent whose hooks and command write what happens to a file.
func diaryTOML(script string, keys ...string) string {
	note := func(hook string) string {
		return fmt.Sprintf(`%s = '''echo "$COPPICE_INCARNATION $COPPICE_HOOK" >> diary'''`, hook)
	}
	return agentTOML("a", `echo "$COPPICE_INCARNATION main" >> diary; echo here
`+script, append([]string{`ready = { log = "here" }`, note("on_waking"), note("on_start"), note("on_resting"),
		`on_error = '''echo "$COPPICE_INCARNATION $COPPICE_HOOK $COPPICE_EXIT ${COPPICE_EXIT_CODE-}${COPPICE_EXIT_SIGNAL-}" >> diary'''`}, keys...)...)
}

func (f *fleet) diary() []string {
	data, _ := os.ReadFile(filepath.Join(f.dir, "diary"))
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func (f *fleet) awaitDiary(want ...string) {
	f.t.Helper()
	eventually(f.t, strings.Join(want, ", "), func() bool { return slices.Equal(f.diary(), want) || len(f.diary()) > len(want) })
	if got := f.diary(); !slices.Equal(got, want) {
		f.t.Fatalf("diary: %q, want %q", got, want)
	}
}

// The hooks run in the same order in every incarnation.
func TestHooks(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	dir := project(t)
	release := fifo(t, dir, "crash")
	f := fleetIn(t, dir, diaryTOML(`[ $COPPICE_INCARNATION = 1 ] || { trap 'echo "$COPPICE_INCARNATION end" >> diary; exit 0' TERM; : > up; while :; do sleep 0.02; done; }
read x < crash; exit 7`))
	f.do("up", "-d")
	f.awaitDiary("1 on_waking", "1 main", "1 on_start")
	release()
	first := []string{"1 on_waking", "1 main", "1 on_start", "1 on_error failure 7", "2 on_waking", "2 main", "2 on_start"}
	f.awaitDiary(first...)
	eventually(t, "the trap", func() bool { _, err := os.Stat(filepath.Join(f.dir, "up")); return err == nil })
	f.do("stop", "a")
	f.awaitDiary(append(first, "2 on_resting", "2 end")...)
	var hooks []string
	for _, e := range f.events(event.AgentHook, "t/a") {
		hooks = append(hooks, e.Message)
	}
	if len(hooks) != 6 || hooks[2] != "t/a on_error has run" {
		t.Errorf("events: %q", hooks)
	}
}

// Hooks can set beliefs: their token is that of the incarnation.
func TestHooksActAsTheirAgent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `[ $COPPICE_INCARNATION = 2 ] && exec sleep 1000; exit 1`, `restart = "on-failure"`,
		`on_waking = "coppice agent env > waking.$COPPICE_INCARNATION"`, `on_error = "coppice agent env > error.$COPPICE_INCARNATION"`))
	f.up()
	f.awaitState("t/a", "running")
	for _, name := range []string{"waking.1", "error.1", "waking.2"} {
		eventually(t, name, func() bool {
			data, _ := os.ReadFile(filepath.Join(f.dir, name))
			return strings.HasPrefix(string(data), "COPPICE_AGENT=t/a\nCOPPICE_INCARNATION="+name[len(name)-1:]+"\n")
		})
	}
}

// A hook that fails or hangs fails the start, or has no effect, depending on the hook.
func TestHooksFail(t *testing.T) {
	t.Parallel()
	quick := `timeout = "300ms"`
	f := newFleet(t,
		agentTOML("waking", `echo ran >> waking.ran; exec sleep 1001`, `on_waking = "echo no connection; exit 4"`, `restart = "never"`),
		agentTOML("starting", `exec sleep 1002`, `on_start = "exit 5"`, `restart = "never"`),
		agentTOML("slow", `exec sleep 1003`, `on_waking = { command = "sleep 1004", `+quick+` }`, `restart = "never"`),
		agentTOML("resting", `exec sleep 1005`, `on_resting = { command = "sleep 1006 & sleep 1007", `+quick+` }`),
	)
	f.do("up", "-d")
	for path, want := range map[string]string{"waking": "on_waking: exit code 4", "starting": "on_start: exit code 5", "slow": "on_waking: it has not ended within 300ms"} {
		eventually(t, path+" to be down", func() bool { return f.node("t/"+path).State == "stopped" })
		if told := f.events(event.AgentStartFailed, "t/"+path); len(told) != 1 || !strings.Contains(told[0].Message, want) {
			t.Errorf("%s: no failed start with %q in %v", path, want, told)
		}
		if told := f.events(event.AgentHookFailed, "t/"+path); len(told) != 1 || path == "waking" && !strings.Contains(string(told[0].Data), "no connection") {
			t.Errorf("%s: no failed hook, or without its last words, in %v", path, told)
		}
	}
	if _, err := os.Stat(filepath.Join(f.dir, "waking.ran")); err == nil {
		t.Error("it ran although on_waking has failed")
	}
	f.awaitState("t/resting", "running")
	f.do("stop", "resting")
	if n := f.node("t/resting"); n.State != "stopped" {
		t.Errorf("not stopped: %+v", n)
	}
	for n := range 7 {
		if left := f.countProcesses(fmt.Sprint("sleep 100", n+1)); left != 0 {
			t.Errorf("sleep 100%d: %d left", n+1, left)
		}
	}
}

// A daemon killed during a hook leaves no hook behind, and the next daemon continues.
func TestHooksOfKilledDaemon(t *testing.T) {
	t.Parallel()
	dir := project(t)
	fifo(t, dir, "never")
	f := fleetIn(t, dir, agentTOML("a", `echo main >> diary; echo here; exec sleep 1000`, `ready = { log = "here" }`,
		`on_start = '''echo "start" >> diary; [ -e go ] || exec sleep 1008'''`))
	first := exec.Command("coppice", "up", "-d")
	first.Dir = f.dir
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Wait() })
	f.awaitDiary("main", "start")
	f.crash()
	eventually(t, "the end of the hook", func() bool { return f.countProcesses("sleep 1008") == 0 })
	write(t, filepath.Join(dir, "go"), "")
	f.do("up", "-d")
	f.awaitState("t/a", "running")
	f.awaitDiary("main", "start", "start")
	// Recorded hooks do not run again.
	f.crash()
	f.do("up", "-d")
	f.awaitState("t/a", "running")
	f.awaitDiary("main", "start", "start")
	if n := f.node("t/a"); n.Incarnation != 1 {
		t.Errorf("incarnation %d", n.Incarnation)
	}
}
