// Command chaos kills the daemon, shims and agents of a fleet with SIGKILL at random
// moments, again and again, and checks what Coppice promises: each agent that was killed,
// alone or with its shim, is restarted once and no other, none runs twice, no exit and no
// output is missed, no process is left, and the event log has neither gaps nor repeats.
// Some agents are those of a Sage program, which share a process: what they keep in
// beliefs is never lost.
// With -beliefs it kills agents and their shims, too, while the agents write
// beliefs: what was acknowledged is there, whole. With -orders it kills the
// daemon while orders fire: each firing runs once, and none is forgotten. With
// -pipeline it kills daemons, workers, stages and git commands while a backlog
// goes through a pipeline: each task ends as if nothing had been killed.
// With -cluster it kills, stops, pauses and cuts off the nodes of a fleet of
// several machines, and the members of its etcd: no agent ever runs twice, others
// take over in time, and nothing that was acknowledged is lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/control"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agent(os.Args[2:])
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "stage" {
		os.Exit(stage(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.coppice, "coppice", "bin/coppice", "the program to test")
	flag.IntVar(&o.agents, "agents", 200, "agents in all")
	flag.IntVar(&o.crashing, "crashing", 20, "of these, how many crash all the time")
	flag.IntVar(&o.program, "program", 8, "agents of a Sage program, next to these")
	flag.IntVar(&o.perShim, "per-shim", 32, "agents that share a shim")
	flag.IntVar(&o.rounds, "rounds", 100, "how often something is killed")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	beliefs := flag.Bool("beliefs", false, "kill agents, shims and the daemon while agents write beliefs")
	orders := flag.Bool("orders", false, "kill the daemon while orders fire")
	flag.IntVar(&o.divided, "divided", 21, "with -pipeline: how many tasks are divided; 13 are not")
	pipelines := flag.Bool("pipeline", false, "kill all kinds of processes while tasks go through a pipeline")
	clusters := flag.Bool("cluster", false, "let machines of a fleet fail, and the etcd that it has")
	flag.StringVar(&o.etcd, "etcd", etcdProgram, "with -cluster: the program of the server")
	flag.IntVar(&o.runs, "runs", 1000, "with -orders: how many runs there are at least")
	flag.Parse()
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	o.dir, o.say = dir, func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	fmt.Printf("seed %d, in %s\n", o.seed, dir)
	trial := run
	if *beliefs {
		trial = runBeliefs
	}
	if *orders {
		trial = runOrders
	}
	if *pipelines {
		trial = runPipeline
	}
	if *clusters {
		trial, o.namespaces = runCluster, true
	}
	if err := trial(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.RemoveAll(dir)
}

type options struct {
	coppice          string
	agents, crashing int
	program          int // agents of a Sage program
	perShim          int
	rounds, runs     int
	divided          int
	seed             uint64
	etcd             string        // the program of the server
	namespaces       bool          // of the network, if the machine allows them
	slack            time.Duration // added to the targets
	first            string        // the fault of the first round, which others follow in their order; random if empty
	dir              string
	say              func(format string, args ...any)
}

// header returns the beginning of the file of a fleet. settings are further lines of [project].
func (o options) header(settings string) string {
	return fmt.Sprintf("[project]\nname = \"chaos\"\n%s\n[daemon]\nagents_per_shim = %d\n\n"+
		"[supervision]\nmax_restarts = \"unlimited\"\n", settings, o.perShim)
}

// run is a whole trial: a fleet, its processes killed over and over, the check.
func run(o options) (err error) {
	coppice, err := filepath.Abs(o.coppice)
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
	killer := newFleetKiller(o)
	var slowest time.Duration
	up := func() error {
		began := time.Now()
		defer func() { slowest = max(slowest, time.Since(began)) }()
		return upDaemon(coppice, o.dir)
	}
	if err := up(); err != nil {
		return err
	}
	socket, err := endpoint.Path(o.dir)
	if err != nil {
		return err
	}
	client := api.Dial(socket)
	running := true
	defer func() {
		if running {
			err = errors.Join(err, down(client, o.dir))
		}
	}()

	slowest = 0
	for round := range o.rounds {
		time.Sleep(time.Duration(killer.rnd.IntN(300)) * time.Millisecond) // the random moment
		if err := killer.strike(up); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if (round+1)%10 == 0 {
			o.say("%d rounds", round+1)
		}
	}
	if err := errors.Join(killer.settled(), killer.commands()); err != nil {
		return err
	}
	o.say("%d rounds, killed %v, the slowest return took %v", o.rounds, killer.killed, slowest.Round(time.Millisecond))
	running = false
	if err := down(client, o.dir); err != nil { // so that the journals and the log are about the same time
		return err
	}
	if err := killer.left(); err != nil {
		return err
	}
	return check(o, killer)
}

// writeProject writes the files of the fleet.
func writeProject(o options, self string) error {
	var b strings.Builder
	settings := ""
	if o.program > 0 {
		settings = fmt.Sprintf("program = %q\n", programName)
		if err := writeProgram(o); err != nil {
			return err
		}
	}
	b.WriteString(o.header(settings))
	for i := range o.agents {
		kind := "stay"
		if i < o.crashing {
			kind = "crash"
		}
		fmt.Fprintf(&b, "\n[[agent]]\nname = \"%s-%d\"\ncommand = [%q, \"agent\", %q, \"%s\", "+
			"\"%s-%d\"]\nbackoff = \"none\"\n", kind, i, self, o.dir, kind, kind, i)
	}
	return os.WriteFile(filepath.Join(o.dir, "coppice.toml"), []byte(b.String()), 0o600)
}

// upDaemon starts a daemon in the background. Some agents may not be well.
func upDaemon(coppice, dir string) error {
	cmd := exec.Command(coppice, "up", "-d")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "not well:") {
		return fmt.Errorf("coppice up: %w: %s", err, out)
	}
	return nil
}

// killDaemon kills the holder of the project's lock, and waits until it is gone.
func killDaemon(dir string) error {
	pid, err := daemonPID(dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the daemon %d: %w", pid, err)
	}
	return waitGone(pid)
}

// down stops the fleet in order.
func down(client *api.Client, dir string) error {
	pid, err := daemonPID(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := control.Down.Call(ctx, client, control.DownRequest{}); err != nil {
		return err
	}
	return waitGone(pid)
}
