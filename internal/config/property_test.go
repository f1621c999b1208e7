package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// flatten is the inverse of spec.Assemble.
func flatten(t *spec.Tree) (spec.Node, []spec.Decl) {
	root := *t.Root
	root.Children = nil
	var decls []spec.Decl
	for _, c := range t.All() {
		if c.Node != nil && c.Node.Template != nil {
			c = spec.Child{Agent: c.Node.Template}
		}
		if c.Agent != nil {
			decls = append(decls, spec.Decl{Agent: c.Agent})
			continue
		}
		d := spec.Decl{Node: c.Node}
		for _, below := range c.Node.Children {
			d.Children = append(d.Children, below.Name())
		}
		decls = append(decls, d)
	}
	return root, decls
}

// print returns the tree as a coppice.toml.
func print(t *spec.Tree) string {
	var b strings.Builder
	line := func(key string, value any) {
		switch v := value.(type) {
		case string:
			value = configtest.Quoted(v)
		case []string:
			all := make([]string, len(v))
			for i, s := range v {
				all[i] = configtest.Quoted(s)
			}
			value = "[" + strings.Join(all, ", ") + "]"
		case time.Duration:
			value = configtest.Quoted(v.String())
		}
		fmt.Fprintf(&b, "%s = %v\n", key, value)
	}
	limit := func(l supervisor.Limit, window string) {
		if l.Max == supervisor.Unlimited {
			line("max_restarts", "unlimited")
		} else {
			line("max_restarts", l.Max)
		}
		if l.Within > 0 {
			line(window, l.Within)
		}
		line("on_limit", l.OnLimit.String())
	}
	root, decls := flatten(t)
	b.WriteString("[project]\n")
	line("name", root.Name)
	line("suspended", root.Suspended)
	if p := t.Patrol; p != spec.DefaultPatrol() {
		b.WriteString("[daemon]\n")
		line("patrol_interval", p.Interval)
		line("max_restarts", max(p.Limit.Max, 0))
		line("restart_window", p.Limit.Within)
		line("shutdown_timeout", p.ShutdownTimeout)
		line("drift_drain_timeout", p.DriftDrainTimeout)
		line("max_parallel_starts", p.Starts)
		line("agents_per_shim", p.PerShim)
		line("program_memory", p.ProgramMemory)
		line("max_claims", p.MaxClaims)
		line("max_failed_tasks", p.MaxFailedTasks)
		line("failed_tasks_window", p.FailedTasksWindow)
		if p.Purges() {
			line("gc_interval", p.GCInterval)
			line("ttl", p.TTL)
		}
	}
	b.WriteString("[supervision]\n")
	line("strategy", root.Strategy.String())
	line("auto_shutdown", root.AutoShutdown.String())
	if t.RestorePolicy != spec.RestoreMost {
		line("persist", t.RestorePolicy == spec.RestoreAll)
	}
	line("max_restarts", root.Limit.Max)
	line("within_seconds", int(root.Limit.Within/time.Second))
	line("on_limit", root.Limit.OnLimit.String())
	for _, d := range decls {
		if n := d.Node; n != nil {
			b.WriteString("[[supervisor]]\n")
			line("name", n.Name)
			line("strategy", n.Strategy.String())
			line("restart", n.Restart.String())
			line("auto_shutdown", n.AutoShutdown.String())
			line("significant", n.Significant)
			line("suspended", n.Suspended)
			line("children", d.Children)
			if n.DependsOn != nil {
				line("depends_on", n.DependsOn)
			}
			limit(n.Limit, "within")
			continue
		}
		a := d.Agent
		b.WriteString("[[agent]]\n")
		line("name", a.Name)
		line("command", a.Command)
		line("dir", a.Dir)
		if a.Stdin != "" {
			line("stdin", a.Stdin)
		}
		if a.Files != nil {
			line("files", a.Files)
		}
		if a.EnvFiles != nil {
			line("env_file", a.EnvFiles)
		}
		if a.Logs.MaxSize > 0 {
			line("logs.max_size", a.Logs.MaxSize)
		}
		if a.Logs.Keep > 0 {
			line("logs.keep", a.Logs.Keep)
		}
		line("runtime", a.Runtime.String())
		line("terminal", a.Terminal)
		if a.Limits.Memory > 0 {
			line("limits.memory", a.Limits.Memory)
		}
		if a.Limits.CPU > 0 {
			line("limits.cpu", a.Limits.CPU)
		}
		if a.Limits.OpenFiles > 0 {
			line("limits.open_files", a.Limits.OpenFiles)
		}
		if a.Limits.Processes > 0 {
			line("limits.processes", a.Limits.Processes)
		}
		line("restart", a.Restart.String())
		line("significant", a.Significant)
		line("suspended", a.Suspended)
		if a.ProcessNames != nil {
			line("process_names", a.ProcessNames)
		}
		if a.User != "" {
			line("user", a.User)
		}
		if a.Group != "" {
			line("group", a.Group)
		}
		if a.NoNewPrivileges {
			line("no_new_privileges", true)
		}
		if a.ReadWritePaths != nil {
			line("read_write_paths", a.ReadWritePaths)
		}
		if a.ReadOnlyPaths != nil {
			line("read_only_paths", a.ReadOnlyPaths)
		}
		if a.DependsOn != nil {
			line("depends_on", a.DependsOn)
		}
		if a.Placement.Node != "" {
			line("node", a.Placement.Node)
		}
		for _, name := range slices.Sorted(maps.Keys(a.Placement.Labels)) {
			line("labels."+configtest.Quoted(name), a.Placement.Labels[name])
		}
		if a.Placement.Spread != "" {
			line("spread", a.Placement.Spread)
		}
		if a.Placement.MaxPerNode > 0 {
			line("max_per_node", a.Placement.MaxPerNode)
		}
		if a.Watchdog > 0 {
			line("watchdog", a.Watchdog)
		} else if a.Notify && !a.Ready.Notify {
			line("notify", true)
		}
		if a.Limit != (supervisor.Limit{}) && !a.DefaultLimit {
			limit(a.Limit, "restart_window")
		}
		line("shutdown.signal", "SIG"+a.Shutdown.Signal)
		line("shutdown.grace", a.Shutdown.Grace)
		if !a.DefaultBackoff {
			line("backoff.kind", a.Backoff.Kind.String())
			line("backoff.jitter", a.Backoff.Jitter)
		}
		for key, d := range map[string]time.Duration{"base": a.Backoff.Base, "cap": a.Backoff.Cap, "stable_after": a.Backoff.StableAfter} {
			if a.DefaultBackoff {
				break
			}
			if d > 0 {
				line("backoff."+key, d)
			} else if d < 0 {
				line("backoff."+key, "never")
			}
		}
		for key, text := range map[string]string{"log": a.Ready.Log, "tcp": a.Ready.TCP, "http": a.Ready.HTTP} {
			if text != "" {
				line("ready."+key, text)
			}
		}
		if a.Ready.Exec != nil {
			line("ready.exec", a.Ready.Exec)
		}
		if a.Ready.Notify {
			line("ready.notify", true)
		}
		if a.Ready.Timeout > 0 {
			line("ready.timeout", a.Ready.Timeout)
		}
		for key, d := range map[string]time.Duration{"heartbeat_timeout": a.HeartbeatTimeout, "progress_timeout": a.ProgressTimeout, "idle_timeout": a.IdleTimeout} {
			if d > 0 {
				line(key, d)
			}
		}
		switch n := a.Nudge; {
		case n.Type:
			line("nudge.type", true)
		case n.Signal != "":
			line("nudge.signal", n.Signal)
		case n.Command != nil:
			line("nudge.command", n.Command)
		}
		for _, name := range slices.Sorted(maps.Keys(a.Env)) {
			line("env."+configtest.Quoted(name), a.Env[name])
		}
		if p := a.Pool; p != nil {
			line("pool.min", p.Min)
			line("pool.max", p.Max)
			line("pool.check_timeout", p.CheckTimeout)
			line("pool.drain_timeout", p.DrainTimeout)
			if p.Check != nil {
				line("pool.check", p.Check)
			}
			if p.Names != nil {
				line("pool.namepool", p.Names)
			}
			for key, h := range map[string]spec.Hook{"on_boot": p.OnBoot, "on_death": p.OnDeath} {
				if h.Exists() {
					line("pool."+key+".command", h.Command)
					line("pool."+key+".timeout", h.Timeout)
				}
			}
		}
	}
	return b.String()
}

var (
	someTime = rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Range(1, 1<<50).Draw(t, "time")) })
)

func someLimit(t *rapid.T, scope supervisor.Scope) supervisor.Limit {
	max, within := rapid.IntRange(1, spec.MaxRestarts).Draw(t, "max"), someTime.Draw(t, "within")
	l := rapid.SampledFrom([]supervisor.Limit{
		supervisor.Escalating(max, within), supervisor.Quarantining(max, within), supervisor.GivingUp(max), supervisor.Pausing(max, within),
		supervisor.Escalating(supervisor.Unlimited, within),
	}).Draw(t, "limit")
	if scope == supervisor.ScopeChild {
		l.Scope = scope
	}
	return l
}

// someTree draws a valid tree.
func someTree(t *rapid.T) *spec.Tree {
	used := map[string]bool{}
	name := func() string {
		return rapid.Custom(func(t *rapid.T) string {
			return configtest.SomeName.Filter(func(s string) bool { return !used[s] }).Draw(t, "name")
		}).Draw(t, "name")
	}
	agents := 0
	var earlier []string // agents that later ones can depend on, without those that contain them
	agent := func(auto supervisor.AutoShutdown) spec.Child {
		agents++
		a := &spec.Agent{
			Name:    name(),
			Command: rapid.SliceOfN(configtest.SomeText, 1, 3).Draw(t, "command"),
			Dir:     "/" + rapid.StringMatching(`[a-zä ]{1,5}`).Draw(t, "dir"),
			Restart: rapid.SampledFrom([]supervisor.Restart{0, 1, 2}).Draw(t, "restart"), Suspended: rapid.Bool().Draw(t, "suspended"),
			Backoff: supervisor.Backoff{
				Kind: rapid.SampledFrom([]supervisor.BackoffKind{0, 1, 2, 3}).Draw(t, "kind"), Jitter: rapid.Bool().Draw(t, "jitter"),
				StableAfter: rapid.SampledFrom([]time.Duration{-1, 0, time.Minute}).Draw(t, "stable"),
			},
			Shutdown: spec.Shutdown{Signal: rapid.SampledFrom(spec.SignalNames()).Draw(t, "signal"), Grace: someTime.Draw(t, "grace")},
			Ready: rapid.SampledFrom([]spec.Ready{
				{}, {Log: `a+\b`}, {TCP: "[::1]:80"}, {HTTP: "https://x"}, {Exec: []string{"x", " "}}, {Notify: true},
			}).Draw(t, "ready"),
		}
		used[a.Name] = true
		if a.Backoff.Kind != supervisor.NoBackoff {
			a.Backoff.Cap = time.Minute
		}
		if rapid.Bool().Draw(t, "place") {
			a.Runtime = rapid.SampledFrom([]spec.Runtime{spec.Proc, spec.Tmux}).Draw(t, "runtime")
			a.Terminal = a.Runtime == spec.Tmux || rapid.Bool().Draw(t, "terminal")
			a.Limits = spec.Limits{
				Memory: rapid.Int64Range(spec.MinMemory, 1<<62).Draw(t, "memory"), CPU: rapid.Float64Range(spec.MinCPU, spec.MaxCPU).Draw(t, "cpu"),
				OpenFiles: rapid.Uint64Range(0, spec.MaxCount).Draw(t, "files"), Processes: rapid.Uint64Range(0, spec.MaxCount).Draw(t, "processes"),
			}
		}
		if rapid.Bool().Draw(t, "more") {
			if a.Runtime == spec.Tmux || !a.Terminal {
				a.Stdin = "/dev/zero"
			}
			a.Files = rapid.SampledFrom([][]string{nil, {"/etc/motd"}, {"/etc/motd", "/not/there"}}).Draw(t, "files of it")
			a.EnvFiles = rapid.SampledFrom([][]string{nil, {"/etc/environment"}}).Draw(t, "files of its environment")
			a.Logs = rapid.SampledFrom([]spec.Logs{{}, {MaxSize: 1 << 20}, {Keep: 1}, {MaxSize: 1 << 30, Keep: 100}}).Draw(t, "logs")
			a.Limit = someLimit(t, supervisor.ScopeChild)
			a.Backoff.Base = time.Duration(rapid.Int64Range(1, 1000).Draw(t, "base"))
			a.Backoff.Cap = a.Backoff.Base + someTime.Draw(t, "cap")
			a.Env = map[string]string{"A": configtest.SomeText.Draw(t, "value"), configtest.SomeText.Filter(func(s string) bool { return !strings.Contains(s, "=") }).Draw(t, "variable"): ""}
		}
		if rapid.Bool().Draw(t, "default backoff") {
			a.Backoff, a.DefaultBackoff = spec.DefaultBackoff(), true
		}
		if rapid.Bool().Draw(t, "watched") {
			a.HeartbeatTimeout, a.ProgressTimeout = someTime.Draw(t, "heartbeat"), someTime.Draw(t, "progress")
			a.IdleTimeout = someTime.Draw(t, "idle")
			if a.Runtime == spec.Proc && a.Stdin == "" && rapid.Bool().Draw(t, "own user") {
				a.User, a.Group = "u", rapid.SampledFrom([]string{"", "g"}).Draw(t, "group")
				a.EnvFiles = nil
			}
			a.NoNewPrivileges = rapid.Bool().Draw(t, "no new privileges")
			a.ProcessNames = rapid.SampledFrom([][]string{nil, {"claude", "node"}}).Draw(t, "process names")
			a.Nudge = rapid.SampledFrom([]spec.Nudge{{}, {Type: a.Terminal}, {Signal: "USR2"}, {Command: []string{"x", " "}}}).Draw(t, "nudge")
		}
		if a.Ready.Log+a.Ready.TCP+a.Ready.HTTP != "" || a.Ready.Exec != nil || a.Ready.Notify {
			a.Ready.Timeout = someTime.Draw(t, "timeout")
		}
		if rapid.Bool().Draw(t, "watched") {
			a.Watchdog = spec.MinWatchdog + someTime.Draw(t, "watchdog")
		}
		a.Notify = a.Ready.Notify || a.Watchdog > 0 || rapid.Bool().Draw(t, "listened to")
		a.Significant = a.Restart != supervisor.Permanent && (auto == 1 || auto == 2) && rapid.Bool().Draw(t, "significant")
		if len(earlier) > 0 && rapid.Bool().Draw(t, "depends") {
			a.DependsOn = []string{rapid.SampledFrom(earlier).Draw(t, "on")}
		}
		a.Placement = rapid.SampledFrom([]spec.Placement{
			{}, {}, {Node: "a.example-1"}, {Labels: map[string]string{"topology/zone": "eu", "gpu": ""}}, {MaxPerNode: 1},
			{Labels: map[string]string{"A_b.c": "X"}, Spread: "zone", MaxPerNode: spec.MaxPerNode},
		}).Draw(t, "placement")
		earlier = append(earlier, a.Name)
		if !a.Significant && rapid.IntRange(0, 3).Draw(t, "pool") == 0 {
			return spec.Child{Node: somePool(t, a)}
		}
		return spec.Child{Agent: a}
	}
	var node func(depth int, auto supervisor.AutoShutdown) *spec.Node
	node = func(depth int, auto supervisor.AutoShutdown) *spec.Node {
		n := &spec.Node{
			Name:         name(),
			Strategy:     rapid.SampledFrom([]supervisor.Strategy{0, 1, 2}).Draw(t, "strategy"),
			Limit:        someLimit(t, supervisor.ScopeSupervisor),
			AutoShutdown: rapid.SampledFrom([]supervisor.AutoShutdown{0, 1, 2, 3}).Draw(t, "auto"),
			Suspended:    rapid.Bool().Draw(t, "suspended"),
		}
		used[n.Name] = true
		if depth > 1 && len(earlier) > 0 && rapid.Bool().Draw(t, "depends") {
			n.DependsOn = []string{rapid.SampledFrom(earlier).Draw(t, "on")}
		}
		if depth > 1 {
			n.Backoff = spec.DefaultBackoff()
			n.Restart = rapid.SampledFrom([]supervisor.Restart{0, 1, 2}).Draw(t, "restart")
			n.Significant = n.Restart != supervisor.Permanent && (auto == 1 || auto == 2)
		} else {
			n.Limit = supervisor.Escalating(rapid.IntRange(0, 9).Draw(t, "max"), time.Duration(rapid.IntRange(1, 99).Draw(t, "seconds"))*time.Second)
		}
		for range rapid.IntRange(0, 3).Draw(t, "children") {
			if depth < supervisor.MaxDepth-1 && rapid.Bool().Draw(t, "deeper") {
				n.Children = append(n.Children, spec.Child{Node: node(depth+1, n.AutoShutdown)})
			} else {
				n.Children = append(n.Children, agent(n.AutoShutdown))
			}
		}
		if depth == 1 && agents == 0 {
			n.Children = append(n.Children, agent(n.AutoShutdown))
		}
		return n
	}
	tree := &spec.Tree{Root: node(1, 0), Patrol: spec.DefaultPatrol(), RestorePolicy: spec.RestorePolicy(rapid.IntRange(0, 2).Draw(t, "recall"))}
	if rapid.Bool().Draw(t, "daemon") {
		tree.Patrol = somePatrol(t)
		for _, c := range tree.Root.Children {
			if c.Agent != nil && c.Agent.Limit == (supervisor.Limit{}) {
				c.Agent.Limit, c.Agent.DefaultLimit = tree.Patrol.Limit, true
			}
		}
	}
	for _, n := range tree.Pools() {
		if a := n.Template; a.Limit == (supervisor.Limit{}) {
			a.Limit, a.DefaultLimit = tree.Patrol.Limit, true
		}
	}
	return tree
}

func somePatrol(t *rapid.T) spec.Patrol {
	p := spec.Patrol{
		Interval: spec.MinPatrolInterval + someTime.Draw(t, "interval"), Starts: rapid.IntRange(1, spec.MaxStarts).Draw(t, "starts"),
		PerShim:       rapid.IntRange(1, spec.MaxPerShim).Draw(t, "per shim"),
		ProgramMemory: rapid.Int64Range(spec.MinProgramMemory, 1<<62).Draw(t, "program memory"),
		MaxClaims:     rapid.IntRange(0, spec.MaxClaims).Draw(t, "claims"),
		MaxFailedTasks: rapid.IntRange(0, spec.MaxFailedTasks).Draw(t,
			"failed tasks"), FailedTasksWindow: someTime.Draw(t, "window"),
		ShutdownTimeout: someTime.Draw(t, "shutdown") - 1, DriftDrainTimeout: someTime.Draw(t, "drift"),
		Limit: supervisor.Quarantining(rapid.IntRange(1, spec.MaxRestarts).Draw(t, "max"), someTime.Draw(t, "within")),
	}
	if rapid.Bool().Draw(t, "no limit") {
		p.Limit.Max = supervisor.Unlimited
	}
	if rapid.Bool().Draw(t, "purges") {
		p.GCInterval, p.TTL = someTime.Draw(t, "gc"), someTime.Draw(t, "ttl")
	}
	return p
}

// somePool makes a pool of an agent.
func somePool(t *rapid.T, a *spec.Agent) *spec.Node {
	p := &spec.Pool{
		Min: rapid.IntRange(0, 3).Draw(t, "min"), Max: rapid.SampledFrom([]int{spec.UnlimitedPool, 3, spec.MaxInstances}).Draw(t, "max"),
		Check:        rapid.SampledFrom([][]string{nil, {"echo", "2"}}).Draw(t, "check"),
		CheckTimeout: time.Duration(rapid.Int64Range(1, int64(spec.MaxDrainTimeout)).Draw(t, "check timeout")),
		DrainTimeout: time.Duration(rapid.Int64Range(1, int64(spec.MaxDrainTimeout)).Draw(t, "drain timeout")),
		OnDeath:      rapid.SampledFrom([]spec.Hook{{}, {Command: []string{"x", " "}, Timeout: time.Second}}).Draw(t, "on_death"),
	}
	if p.Max == 3 && rapid.Bool().Draw(t, "named") {
		p.Names = []string{a.Name + " 1", a.Name + " 3", a.Name + " ë"}
	}
	a.Pool = p
	return &spec.Node{
		Name: a.Name, Template: a, Suspended: a.Suspended, DependsOn: a.DependsOn,
		Limit: supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin), Backoff: spec.DefaultBackoff(),
	}
}

// TestRoundTrip checks that a tree that is written and read again is equal, and that
// supervisors accept it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := someTree(t)
		text := print(want)
		got, err := Parse("/x/coppice.toml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text)
		}
		if err := supervise(got.Root).Validate(); err != nil {
			t.Fatalf("the supervisors refuse it: %v\n%s", err, text)
		}
	})
}

func neverStart(context.Context) (supervisor.Process, error) { return nil, supervisor.ErrIgnore }

// supervise converts a tree to a supervisor.Spec.
func supervise(n *spec.Node) supervisor.Spec {
	s := supervisor.Spec{Name: n.Name, Strategy: n.Strategy, Limit: n.Limit, AutoShutdown: n.AutoShutdown}
	for _, c := range n.Children {
		if c.Node != nil {
			sub := supervise(c.Node)
			s.Children = append(s.Children, supervisor.ChildSpec{ID: c.Node.Name, Supervisor: &sub, Restart: c.Node.Restart, Significant: c.Node.Significant})
			continue
		}
		a := c.Agent
		s.Children = append(s.Children, supervisor.ChildSpec{
			ID: a.Name, Start: neverStart, Restart: a.Restart, Significant: a.Significant, Backoff: a.Backoff, Limit: a.Limit,
			Shutdown: a.Shutdown.Grace, StartTimeout: a.Ready.Timeout,
		})
	}
	return s
}

// FuzzParse checks that Parse does not panic, that errors have places in the file, and that
// valid files stay valid when written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(Template))
	for _, tt := range badInput {
		if len(tt.text) < 10000 {
			f.Add([]byte(tt.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := Parse("/x/coppice.toml", data)
		if err == nil {
			root, decls := flatten(tree)
			again, problems := spec.Assemble(root, decls)
			if problems != nil {
				t.Fatalf("a tree that was valid has problems: %+v", problems)
			}
			again.RestorePolicy, again.Patrol = tree.RestorePolicy, tree.Patrol // not part of the declarations
			if diff := cmp.Diff(tree, again); diff != "" {
				t.Fatalf("(-first +second)\n%s", diff)
			}
			if err := supervise(tree.Root).Validate(); err != nil {
				t.Fatalf("the supervisors refuse it: %v", err)
			}
			return
		}
		if tree != nil {
			t.Fatalf("got tree %v and error %v", tree, err)
		}
		configtest.CheckErrors(t, data, err)
	})
}
