package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// The examples in docs/agents.md work.
func TestAgentsDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	dir := project(t, block(t, text, "toml"), tokenKeeperTOML("other"))
	write(t, filepath.Join(dir, "writer.sh"), strings.Replace(block(t, text, "sh"), "\n", "\nexport GORACE=atexit_sleep_ms=0\n", 1))
	f := fleetOf(t, dir)
	f.do("up", "-d")
	eventually(t, "the second page", func() bool {
		v := f.node("t/writer").Vitals
		return v != nil && v.Progress != nil && *v.Progress >= 2 && strings.HasPrefix(v.Note, "page ")
	})
	shown := regexp.MustCompile(`last heartbeat \S+ ago; the limit is 1m\n +progress \d+ "page \d+", unchanged for \S+; the limit is 30m`)
	if out := f.do("explain", "writer"); !shown.MatchString(out) || !shown.MatchString(text) {
		t.Errorf("explain: %s", out)
	}
	drain := regexp.MustCompile(`(?m)^coppice (drain .*)$`).FindStringSubmatch(text)
	cmd := exec.Command("sh", "-c", "coppice "+drain[1])
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "writer drained\n" {
		t.Errorf("%s: %v: %s", drain[0], err, out)
	}
	if all := f.events(event.AgentDrained, "t/writer"); len(all) != 1 || decode(t, all[0])["finished"] != true {
		t.Errorf("%v", all)
	}

	// Each command exists, works as shown, and is in the page.
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(coppice agent ([a-z-]+).*?)` \\|").FindAllStringSubmatch(text, -1) {
		listed = append(listed, row[2])
		cmd := exec.Command("sh", "-c", row[1])
		cmd.Env = f.environ("other", 1)
		if row[2] == "request-restart" {
			cmd.Env = append(cmd.Env, "COPPICE_TOKEN=unknown") // the other tests need this incarnation
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		want := map[string]int{"hook": 1, "drain-check": 1, "drain-ack": 1, "request-restart": exitAuth}[row[2]]
		if code != want {
			t.Errorf("%s ends with %d, want %d: %s", row[1], code, want, out)
		}
	}
	slices.Sort(listed)
	var there []string
	for _, row := range regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`).FindAllStringSubmatch(f.do("agent", "--help"), -1) {
		there = append(there, row[1])
	}
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("there are %v, listed are %v", there, listed)
	}
}
