package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/pipeline/worker"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// killer kills processes of a project with a pipeline, at random moments.
type killer struct {
	repo     string
	rnd      *rand.Rand
	count    map[string]int // what was killed
	attempts int            // how many attempts may have ended by it
}

func newKiller(repo string, rnd *rand.Rand) *killer {
	return &killer{repo: repo, rnd: rnd, count: map[string]int{}}
}

// String says what was killed how often.
func (k *killer) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(k.count)) {
		all = append(all, fmt.Sprintf("%s %d", what, k.count[what]))
	}
	return strings.Join(all, ", ")
}

// victims are what a round kills, as often as it is named here. A merging worker, and sometimes a session, is killed
// while a git command of a merge runs.
var victims = []string{
	"daemon", "daemon", "worker", "worker", "merging worker", "stage", "stage", "git", "git", "session",
	"merging session",
}

// strike waits a random time and kills a part of the project; up starts its daemon again. A round that finds nothing to
// kill, because no worker has a task, kills the daemon.
func (k *killer) strike(up func() error) error {
	time.Sleep(time.Duration(k.rnd.IntN(400_000)) * time.Microsecond) // the random moment
	what := victims[k.rnd.IntN(len(victims))]
	workers := k.workers()
	hit := false
	switch what {
	case "worker":
		hit = len(workers) > 0 && k.kill(workers[k.rnd.IntN(len(workers))])
	case "merging worker":
		owner, _, name := catch(workers, mergeCommands)
		hit = owner != 0 && k.kill(owner)
		what += " in git " + name
	case "stage":
		_, pid, _ := catch(workers, []string{"stage"})
		group, err := syscall.Getpgid(pid)
		hit = pid != 0 && err == nil && group == pid && k.kill(-group)
	case "git":
		_, pid, name := catch(workers, mergeCommands)
		hit = pid != 0 && k.kill(pid)
		what += " " + name
	case "session", "merging session":
		if what == "merging session" {
			if _, _, name := catch(workers, mergeCommands); name != "" {
				what += " in git " + name
			}
		}
		k.count[what]++
		return errors.Join(k.killSession(), up())
	}
	if !hit {
		k.count["daemon"]++
		return errors.Join(trial.Kill(k.repo), up())
	}
	k.count[what]++
	return nil
}

// kill kills a process or a process group with which an attempt ends.
func (k *killer) kill(pid int) bool {
	if syscall.Kill(pid, syscall.SIGKILL) != nil {
		return false
	}
	k.attempts++
	return true
}

// workers returns the processes that make attempts.
func (k *killer) workers() (all []int) {
	for pid, argv := range process.All() {
		if isWorker(argv, k.repo) {
			all = append(all, pid)
		}
	}
	slices.Sort(all) // as the seed says, as far as that can be
	return all
}

func isWorker(argv []string, repo string) bool {
	return len(argv) > 2 && argv[1] == worker.Arg && strings.HasPrefix(argv[2], repo+"/")
}

// mergeCommands are the git commands by which a change gets into a branch and a work tree.
var mergeCommands = []string{"merge-tree", "commit-tree", "update-ref", "read-tree", "update-index", "checkout-index"}

// catch waits until a worker runs one of some commands, for at most a second. It returns 0 if none does.
func catch(workers []int, names []string) (owner, pid int, name string) {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		for _, owner := range workers {
			for _, pid := range process.Children(owner) {
				if name := commandName(process.Argv(pid)); slices.Contains(names, name) {
					return owner, pid, name
				}
			}
		}
	}
	return 0, 0, ""
}

// commandName returns the git command of a process, or stage for the command of a stage; empty for any other.
func commandName(argv []string) string {
	switch {
	case len(argv) > 1 && argv[1] == "stage":
		return argv[1]
	case filepath.Base(argv[0]) != "git":
		return ""
	}
	for i := 1; i < len(argv); i++ {
		switch {
		case argv[i] == "-c" || argv[i] == "-C":
			i++
		case !strings.HasPrefix(argv[i], "-"):
			return argv[i]
		}
	}
	return ""
}

// killSession kills all processes of the project: its daemon, what keeps its agents, and what these have started. They
// are stopped first, so that all of them end at the same moment.
func (k *killer) killSession() error {
	daemon, err := trial.PID(k.repo)
	if err != nil {
		return err
	}
	shims, all, err := process.StopShims(process.Shims(k.repo)...)
	if err != nil {
		return err
	}
	of := map[int]bool{daemon: true}
	for _, shim := range shims {
		of[shim] = true
	}
	for _, argv := range all {
		if isWorker(argv, k.repo) {
			k.attempts++
		}
	}
	for grown := true; grown; {
		grown = false
		for pid := range all {
			if !of[pid] && of[process.Parent(pid)] {
				of[pid], grown = true, true
			}
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for pid := range of {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return process.AwaitEnd(daemon)
}
