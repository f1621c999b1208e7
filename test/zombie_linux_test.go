package test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// If the agent below a shell dies while the shell lives on, that counts as its exit, is reported
// once with its last output, and it restarts.
func TestZombies(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"proc", "tmux"} {
		t.Run(runtime, func(t *testing.T) {
			if runtime == "tmux" {
				needTmux(t)
			}
			dir := project(t)
			die := fifo(t, dir, "die")
			write(t, filepath.Join(dir, "brain.sh"), `echo "I am here"; read x < die; echo "I can see a light"; exit 3`)
			f := fleetIn(t, dir, "[daemon]\npatrol_interval = \"50ms\"\n\n",
				agentTOML("a", `sh ./brain.sh; : > over; while :; do sleep 0.05; done`, `process_names = ["brain.sh", "sleeper"]`, `ready = { log = "I am here" }`,
					`runtime = "`+runtime+`"`, `backoff = { kind = "fixed", base = "5m" }`),
				agentTOML("other", `exec sleep 1000`, `process_names = ["sleep"]`, `runtime = "`+runtime+`"`))
			f.do("up", "-d")
			f.awaitStates("a running", "other running")
			die()
			f.awaitFile("over")
			f.awaitStates("a restarting")
			var last struct {
				Error  string   `json:"error"`
				Output []string `json:"last_output"`
			}
			crashed := f.events(event.AgentCrashed, "t/a")
			if len(crashed) != 1 || json.Unmarshal(crashed[0].Data, &last) != nil || !slices.Contains(last.Output, "I can see a light") ||
				!strings.Contains(last.Error, "none of its processes is brain.sh or sleeper, while") {
				t.Fatalf("%+v", crashed)
			}
			for _, p := range processesIn(t, f.dir) {
				if strings.Contains(p.name, "while :;") {
					t.Errorf("its shell %s has been left", p.name)
				}
			}
			if n := f.node("t/other"); n.State != "running" || n.Incarnation != 1 {
				t.Errorf("who lives: %+v", n)
			}
		})
	}
}
