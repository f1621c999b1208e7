package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is one question to one implementation.
type job struct {
	impl, scenario string
	n              int
	argv           []string
	within         time.Duration // that it must answer
}

func scenarios() []string {
	return []string{"spawn", "restart", "latency", "rest", "lost", "exec", "exit", "acted", "fleet", "look",
		"follow-claude", "follow-codex", "output", "belief", "cron", "orders", "work", "attempts", "store"}
}

// walks is the time between two walks of raw-walk: a shorter measurement may see none.
const walks = 2 * time.Second

// sizes are the numbers that make a run long or short.
type sizes struct {
	children int // spawn; siblings in restart and latency, next to none at all
	group    int // rest
	storm    time.Duration
	crashes  int           // latency
	groups   int           // rest
	kills    int           // exec, exit, acted
	resting  int           // acted: agents at rest
	fleets   []int         // agents
	looked   int           // look: agents
	sessions []int         // follow: files of other sessions
	follows  time.Duration // how long each number is measured, a multiple of walks
	output   int           // MB
	writers  int           // belief: agents
	writes   time.Duration
	orders   int
	looks    time.Duration // cron, orders: how long each number is measured
	workers  int           // work: agents, next to one alone
}

func sizesOf(quick bool) sizes {
	if quick {
		return sizes{children: 10_000, group: 1000, storm: 500 * time.Millisecond, crashes: 300, groups: 20,
			kills: 100, resting: 20, fleets: []int{10, 100}, looked: 100, sessions: []int{10_000},
			follows: 2 * walks, output: 200,
			writers: 100, writes: time.Second, orders: 10_000, looks: 200 * time.Millisecond, workers: 64}
	}
	return sizes{children: 100_000, group: 1000, storm: 1500 * time.Millisecond, crashes: 1000, groups: 30,
		kills: 300, resting: 200, fleets: []int{10, 100, 1000, 10_000}, looked: 1000,
		sessions: []int{0, 1000, 10_000}, follows: 3 * walks, output: 1000,
		writers: 100, writes: 5 * time.Second, orders: 10_000, looks: time.Second, workers: 64}
}

// matrix lists the jobs of repetition rep. Implementations of one question
// follow each other, and begin with a different one each time, so that no one
// always has the quiet minute.
func matrix(c config, p programs, rep int) []job {
	s := sizesOf(c.quick)
	var jobs []job
	// ask adds scenario with n children for all of impls. The arguments for
	// OTP are positional.
	ask := func(scenario string, n int, impls, goArgs, erlArgs []string) {
		if !slices.Contains(c.only, scenario) {
			return
		}
		for i := range impls {
			impl := impls[(i+rep)%len(impls)]
			if !wanted(c, impl) {
				continue
			}
			if argv := command(p, impl, scenario, n, goArgs, erlArgs); argv != nil {
				jobs = append(jobs, job{impl, scenario, n, argv, within(scenario)})
			}
		}
	}
	ask("spawn", s.children, []string{
		"raw", "suture", "coppice", "coppice-add", "coppice-pool", "hollywood", "hollywood-inbox16",
		"otp-static", "otp-static-gs", "otp-simple", "otp-simple-gs",
	}, nil, nil)
	hot := []string{"raw", "suture", "suture-panic", "coppice", "coppice-pool", "coppice-panic", "hollywood-inbox16",
		"otp-static", "otp-simple"}
	for _, n := range []int{0, s.children} {
		ask("restart", n, hot, []string{"-d", s.storm.String()},
			[]string{strconv.FormatInt(s.storm.Milliseconds(), 10)})
	}
	for _, n := range []int{0, s.children} {
		ask("latency", n, hot, []string{"-rounds", strconv.Itoa(s.crashes)}, []string{strconv.Itoa(s.crashes), "2"})
	}
	ask("rest", s.group, []string{"raw-rest", "coppice-rest", "otp-static", "otp-static-gs"},
		[]string{"-rounds", strconv.Itoa(s.groups)}, []string{strconv.Itoa(s.groups), "1"})
	ask("lost", 0, []string{"raw", "suture", "suture-panic", "coppice", "coppice-pool", "coppice-panic"}, nil, nil)
	for _, death := range []string{"exec", "exit"} {
		ask(death, 1, []string{"os/exec", "coppice-run", "coppice-up", "process-compose", "supervisord"},
			[]string{"-rounds", strconv.Itoa(s.kills)}, nil)
	}
	for _, n := range []int{0, s.resting} {
		ask("acted", n, []string{"os/exec", "coppice-up"},
			[]string{"-n", strconv.Itoa(n), "-rounds", strconv.Itoa(s.kills)}, nil)
	}
	for _, n := range s.fleets {
		impls := []string{"raw", "coppice-up", "process-compose"}
		if n <= 1000 { // more are beyond the descriptors that supervisord may open
			impls = append(impls, "supervisord")
		}
		ask("fleet", n, impls, []string{"-n", strconv.Itoa(n)}, nil)
	}
	ask("look", s.looked, []string{"raw", "coppice-up", "process-compose"}, []string{"-n", strconv.Itoa(s.looked)}, nil)
	for _, scenario := range []string{"follow-claude", "follow-codex"} {
		for _, n := range s.sessions {
			ask(scenario, n, []string{"raw-walk", "coppice-calls"},
				[]string{"-n", strconv.Itoa(n), "-d", s.follows.String()}, nil)
		}
	}
	ask("output", 100, []string{"raw-cat", "coppice-up"}, []string{"-n", "100", "-mb", strconv.Itoa(s.output)}, nil)
	ask("belief", s.writers, []string{"raw-commit", "coppice-book", "coppice-socket"},
		[]string{"-n", strconv.Itoa(s.writers), "-d", s.writes.String()}, nil)
	ask("cron", 1, []string{"coppice", "robfig-cron", "gronx", "cronexpr"}, []string{"-d", s.looks.String()}, nil)
	ask("orders", s.orders, []string{"coppice", "robfig-cron", "gronx"},
		[]string{"-n", strconv.Itoa(s.orders), "-d", s.looks.String()}, nil)
	for _, n := range []int{1, s.workers} {
		ask("work", n, []string{"raw-sqlite", "goqite", "coppice-queue", "coppice-socket"},
			[]string{"-n", strconv.Itoa(n), "-d", s.writes.String()}, nil)
	}
	for _, n := range []int{1, 4} {
		ask("attempts", n, []string{"raw-sqlite", "coppice-socket"},
			[]string{"-n", strconv.Itoa(n), "-tasks", "10000", "-d", s.writes.String()}, nil)
	}
	for _, n := range []int{1, 3} {
		impls := []string{"raw-etcd", "coppice-etcd"}
		if n == 1 {
			impls = append(impls, "raw-sqlite", "coppice-sqlite")
		}
		ask("store", n, impls, []string{"-n", strconv.Itoa(n), "-d", s.writes.String()}, nil)
	}
	return jobs
}

// within returns how long an answer may take. The slowest ones take a tenth of it, except those of
// fleets and looks, which bound each of their steps.
func within(scenario string) time.Duration {
	if scenario == "fleet" || scenario == "look" { // process-compose lists 1,000 processes in a minute
		return 15 * time.Minute
	}
	return 90 * time.Second
}

func wanted(c config, impl string) bool {
	return len(c.impls) == 0 || slices.ContainsFunc(c.impls, func(p string) bool { return strings.HasPrefix(impl, p) })
}

// command returns the command that runs impl; nil if it was not built.
func command(p programs, impl, scenario string, n int, goArgs, erlArgs []string) []string {
	if otp, ok := strings.CutPrefix(impl, "otp-"); ok {
		if p.beam == "" {
			return nil
		}
		return append([]string{"erl", "-noshell", "+P", "2000000", "-pa", p.beam, "-run", "otpbench", "main",
			otp, scenario, strconv.Itoa(n)}, erlArgs...)
	}
	// The programs that keep agents running.
	program := map[string]string{
		"coppice-run": p.coppice, "coppice-up": p.coppice, "process-compose": p.compose, "supervisord": p.supervisord,
	}[impl]
	if scenario == "exec" || scenario == "exit" {
		argv := []string{"-scenario", scenario, "-firstact", p.firstact}
		switch {
		case impl == "os/exec" && p.execfloor != "":
			argv = append([]string{p.execfloor}, argv...)
		case program != "" && p.agentkill != "":
			argv = append([]string{p.agentkill, "-impl", impl, "-program", program}, argv...)
		default:
			return nil
		}
		return append(argv, goArgs...)
	}
	if scenario == "acted" {
		if p.acted == "" || impl == "coppice-up" && p.coppice == "" {
			return nil
		}
		return append([]string{p.acted, "-impl", impl, "-firstact", p.firstact, "-program", p.coppice}, goArgs...)
	}
	if scenario == "fleet" {
		if p.fleetcost == "" || program == "" && impl != "raw" {
			return nil
		}
		return append([]string{p.fleetcost, "-impl", impl, "-program", program}, goArgs...)
	}
	if scenario == "look" {
		if p.lookcost == "" || program == "" && impl != "raw" {
			return nil
		}
		return append([]string{p.lookcost, "-impl", impl, "-program", program}, goArgs...)
	}
	if cli, ok := strings.CutPrefix(scenario, "follow-"); ok {
		if p.followcost == "" {
			return nil
		}
		return append([]string{p.followcost, "-impl", impl, "-cli", cli}, goArgs...)
	}
	if scenario == "output" {
		if p.outputrate == "" || p.coppice == "" {
			return nil
		}
		return append([]string{p.outputrate, "-impl", impl, "-coppice", p.coppice}, goArgs...)
	}
	if scenario == "belief" || scenario == "work" || scenario == "attempts" {
		program := map[string]string{"belief": p.beliefrate, "work": p.workrate, "attempts": p.workrate}[scenario]
		argv := []string{program, "-impl", impl}
		switch {
		case program == "" || impl == "coppice-socket" && p.coppice == "" || impl == "goqite" && p.goqite == "":
			return nil
		case impl == "coppice-socket":
			argv = append(argv, "-coppice", p.coppice)
		case impl == "goqite":
			argv = append(argv, "-schema", p.goqite)
		}
		return append(argv, goArgs...)
	}
	if scenario == "store" {
		if p.storecost == "" || strings.HasSuffix(impl, "-etcd") && p.etcd == "" {
			return nil
		}
		return append([]string{p.storecost, "-impl", impl, "-etcd", p.etcd}, goArgs...)
	}
	if scenario == "cron" || scenario == "orders" {
		if p.cronrate == "" {
			return nil
		}
		return append([]string{p.cronrate, "-impl", impl, "-scenario", scenario}, goArgs...)
	}
	return append([]string{p.gobench, "-impl", impl, "-scenario", scenario, "-n", strconv.Itoa(n)}, goArgs...)
}
