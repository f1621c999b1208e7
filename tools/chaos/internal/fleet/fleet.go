// Package fleet kills the daemon, shims and agents of a fleet, and checks that each agent that was killed is restarted
// once and no other, that none runs twice, and that no exit and no output is missed.
package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// Run is a whole trial: a fleet, its processes killed over and over, the check.
func Run(o trial.Options) (err error) {
	coppice, err := filepath.Abs(o.Coppice)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := writeProject(o, self); err != nil {
		return err
	}
	killer := newKiller(o)
	var slowest time.Duration
	up := func() error {
		began := time.Now()
		defer func() { slowest = max(slowest, time.Since(began)) }()
		return trial.Up(coppice, o.Dir)
	}
	if err := up(); err != nil {
		return err
	}
	socket, err := endpoint.Path(o.Dir)
	if err != nil {
		return err
	}
	client := api.Dial(socket)
	running := true
	defer func() {
		if running {
			err = errors.Join(err, trial.Down(client, o.Dir))
		}
	}()

	slowest = 0
	for round := range o.Rounds {
		time.Sleep(time.Duration(killer.rnd.IntN(300)) * time.Millisecond) // the random moment
		if err := killer.strike(up); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if (round+1)%10 == 0 {
			o.Say("%d rounds", round+1)
		}
	}
	if err := errors.Join(killer.settled(), killer.commands()); err != nil {
		return err
	}
	o.Say("%d rounds, killed %v, the slowest return took %v", o.Rounds, killer.killed, slowest.Round(time.Millisecond))
	running = false
	if err := trial.Down(client, o.Dir); err != nil { // so that the journals and the log are about the same time
		return err
	}
	if err := killer.left(); err != nil {
		return err
	}
	return check(o, killer)
}

// writeProject writes the files of the fleet.
func writeProject(o trial.Options, self string) error {
	var b strings.Builder
	settings := ""
	if o.Program > 0 {
		settings = fmt.Sprintf("program = %q\n", programName)
		if err := writeProgram(o); err != nil {
			return err
		}
	}
	b.WriteString(o.Header(settings))
	for i := range o.Agents {
		kind := "stay"
		if i < o.Crashing {
			kind = "crash"
		}
		fmt.Fprintf(&b, "\n[[agent]]\nname = \"%s-%d\"\ncommand = [%q, \"agent\", %q, \"%s\", "+
			"\"%s-%d\"]\nbackoff = \"none\"\n", kind, i, self, o.Dir, kind, kind, i)
	}
	return os.WriteFile(filepath.Join(o.Dir, "coppice.toml"), []byte(b.String()), 0o600)
}
