package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// killer kills the daemon, shims and agents of a fleet, and records which lives it has ended.
type killer struct {
	dir      string
	rnd      *rand.Rand
	counters []string                // names of the agents of the program
	hits     map[string]map[int]bool // keyOf of killed lives, by name
	killed   map[string]int          // how often, by kind
	programs int                     // how many processes of the program were killed
}

func newKiller(o trial.Options) *killer {
	rnd := rand.New(rand.NewPCG(o.Seed, 0))
	return &killer{
		dir: o.Dir, rnd: rnd, counters: counters(o), hits: map[string]map[int]bool{}, killed: map[string]int{},
	}
}

// victims lists what a round kills, one round after the other.
var victims = [][]string{
	{"daemon"}, {"agents"}, {"shim"}, {"daemon", "agents"}, {"daemon", "shim"}, {"agents", "shim"}, {"shim", "daemon"},
	{"program"}, {"daemon", "program"}, {"program", "daemon"}, {"agents", "program"}, {"program", "program"},
}

// strike kills what a round kills; up starts the daemon again.
func (k *killer) strike(up func() error) error {
	back := func() error { return nil }
	for _, what := range victims[k.rnd.IntN(len(victims))] {
		k.killed[what]++
		var err error
		switch what {
		case "daemon":
			err, back = trial.Kill(k.dir), up
		case "agents":
			k.killAgents()
		case "shim":
			err = k.killShim(process.Shims(k.dir))
		case "program":
			err = k.killProgram()
		}
		if err != nil {
			return fmt.Errorf("killing: %s: %w", what, err)
		}
	}
	return back()
}

// agents returns the names of the agents that run, by pid.
func (k *killer) agents() map[int]string {
	all := map[int]string{}
	for pid, argv := range process.All() {
		if name, ok := agentName(argv, k.dir); ok {
			all[pid] = name
		}
	}
	return all
}

// agentName returns the name of the agent of a fleet that a process is.
func agentName(argv []string, dir string) (name string, ok bool) {
	if len(argv) != 5 || argv[1] != "agent" || argv[2] != dir {
		return "", false
	}
	return argv[4], true
}

// killAgents kills some agents.
func (k *killer) killAgents() {
	all := k.agents()
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		if k.rnd.IntN(len(all)) < 3 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			k.hit(all[pid], pid)
		}
	}
}

// keyOf returns the pid of a life, or its number in case of an agent of the program.
func (k *killer) keyOf(name string, l agentLife) int {
	if slices.Contains(k.counters, name) {
		return int(l.incarnation) // all of these have the same process
	}
	return l.pid
}

func (k *killer) hit(name string, pid int) {
	if k.hits[name] == nil {
		k.hits[name] = map[int]bool{}
	}
	k.hits[name][pid] = true
}

// killShim kills one of some shims.
func (k *killer) killShim(shims []int) error {
	if len(shims) == 0 {
		return nil
	}
	shim := shims[k.rnd.IntN(len(shims))]
	stopped, all, err := process.StopShims(shim)
	if err != nil || len(stopped) == 0 {
		return err
	}
	if isProgram(all[shim]) {
		if err := k.hitProgram(shim); err != nil {
			return err
		}
	}
	for pid, argv := range all {
		if name, ok := agentName(argv, k.dir); ok && process.Parent(pid) == shim {
			k.hit(name, pid)
		}
	}
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		return err
	}
	return process.AwaitEnd(shim)
}

// settled waits until each agent that was killed has started again.
func (k *killer) settled() error {
	var err error
	for range 600 {
		waits := ""
		for name, hits := range k.hits {
			var lives []agentLife
			if lives, _, err = readLives(k.dir, name); err != nil {
				return err
			}
			if len(lives) == 0 || hits[k.keyOf(name, lives[len(lives)-1])] {
				waits = name
			}
		}
		if waits == "" {
			return nil
		}
		err = fmt.Errorf("%s was killed, and has not started again", waits)
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// left waits until no process of the fleet runs.
func (k *killer) left() (err error) {
	for range 200 {
		err = nil
		for pid, argv := range process.All() {
			if len(argv) > 2 && argv[1] == "agent" && argv[2] == k.dir || process.IsInside(pid, k.dir) {
				err = errors.Join(err, fmt.Errorf("process %d is left: %q", pid, argv))
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// agentLife is a line of a journal.
type agentLife struct {
	incarnation uint64
	pid         int
}

// readLives reads the journal of an agent, and whether it was stopped in the end.
func readLives(dir, name string) (lives []agentLife, stopped bool, err error) {
	f, err := os.Open(filepath.Join(dir, name+".journal"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) != 3 {
			return nil, false, fmt.Errorf("%s: journal line %q", name, s.Text())
		}
		n, err := strconv.ParseUint(fields[1], 10, 64)
		pid, pidErr := strconv.Atoi(fields[2])
		switch {
		case err != nil || pidErr != nil:
			return nil, false, fmt.Errorf("%s: journal line %q", name, s.Text())
		case fields[0] == "twice":
			return nil, false, fmt.Errorf("%s ran twice at the same time, incarnation %d", name, n)
		case stopped:
			return nil, false, fmt.Errorf("%s was stopped before the end, or went on after it: %s", name, s.Text())
		case fields[0] == "stop":
			stopped = true
			continue
		case len(lives) > 0 && n <= lives[len(lives)-1].incarnation:
			return nil, false, fmt.Errorf("%s: incarnation %d was started after %d", name, n,
				lives[len(lives)-1].incarnation)
		}
		lives = append(lives, agentLife{n, pid})
	}
	return lives, stopped, nil
}
