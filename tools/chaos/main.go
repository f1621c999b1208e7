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
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/coppice-dev/coppice/tools/chaos/internal/beliefs"
	"github.com/coppice-dev/coppice/tools/chaos/internal/cluster"
	"github.com/coppice-dev/coppice/tools/chaos/internal/fleet"
	"github.com/coppice-dev/coppice/tools/chaos/internal/orders"
	"github.com/coppice-dev/coppice/tools/chaos/internal/pipeline"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

func main() {
	if isPart() {
		return
	}
	var o trial.Options
	flag.StringVar(&o.Coppice, "coppice", "bin/coppice", "the program to test")
	flag.IntVar(&o.Agents, "agents", 200, "agents in all")
	flag.IntVar(&o.Crashing, "crashing", 20, "of these, how many crash all the time")
	flag.IntVar(&o.Program, "program", 8, "agents of a Sage program, next to these")
	flag.IntVar(&o.PerShim, "per-shim", 32, "agents that share a shim")
	flag.IntVar(&o.Rounds, "rounds", 100, "how often something is killed")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	withBeliefs := flag.Bool("beliefs", false, "kill agents, shims and the daemon while agents write beliefs")
	withOrders := flag.Bool("orders", false, "kill the daemon while orders fire")
	flag.IntVar(&o.Divided, "divided", 21, "with -pipeline: how many tasks are divided; 13 are not")
	withPipeline := flag.Bool("pipeline", false, "kill all kinds of processes while tasks go through a pipeline")
	withCluster := flag.Bool("cluster", false, "let machines of a fleet fail, and the etcd that it has")
	flag.StringVar(&o.Etcd, "etcd", cluster.EtcdProgram, "with -cluster: the program of the server")
	flag.IntVar(&o.Runs, "runs", 1000, "with -orders: how many runs there are at least")
	flag.Parse()
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	o.Dir, o.Say = dir, func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	fmt.Printf("seed %d, in %s\n", o.Seed, dir)
	do := fleet.Run
	if *withBeliefs {
		do = beliefs.Run
	}
	if *withOrders {
		do = orders.Run
	}
	if *withPipeline {
		do = pipeline.Run
	}
	if *withCluster {
		do, o.Namespaces = cluster.Run, true
	}
	if err := do(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.RemoveAll(dir)
}

// isPart reports whether this process is an agent of a trial, or a stage of its pipeline, and has done what that does.
func isPart() bool {
	if len(os.Args) < 4 {
		return false
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "agent":
		if len(args) == 3 && args[1] == "belief" {
			fmt.Fprintln(os.Stderr, beliefs.Agent(args[0], args[2]))
			os.Exit(1)
		}
		fleet.Agent(args)
		return true
	case "stage":
		os.Exit(pipeline.Stage(args))
	}
	return false
}
