package spec

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Pool makes an agent a pool: a supervisor of that name whose children are instances of the
// agent. A check determines their number. The semantics are those of Gas City.
type Pool struct {
	// Min and Max bound the number of instances. Max may be UnlimitedPool.
	Min, Max int
	// Check is the argument vector of a command that prints the desired number of instances. It
	// runs as the agent would. If it is nil, one instance is desired.
	Check []string
	// CheckTimeout limits a run of Check; DefaultCheckTimeout if zero.
	CheckTimeout time.Duration
	// DrainTimeout is the time that a surplus instance has to finish its work before it is
	// stopped; DefaultDrainTimeout if zero.
	DrainTimeout time.Duration
	// OnBoot runs once per start of the daemon, before the first instance starts. Its result is
	// ignored.
	OnBoot Hook
	// OnDeath runs when an instance has ended without being asked to, before its replacement
	// starts. Its result is ignored.
	OnDeath Hook
	// Names are the names of the instances in start order; NAME-1, NAME-2 and so on if nil.
	Names []string
}

// Bounds and defaults of Pool.
const (
	UnlimitedPool       = -1
	MaxInstances        = 1000 // of any pool, including an unlimited one
	DefaultCheckTimeout = 30 * time.Second
	DefaultDrainTimeout = 5 * time.Minute
	MaxDrainTimeout     = 7 * 24 * time.Hour
)

// Ceiling returns the largest possible number of instances.
func (p *Pool) Ceiling() int {
	n := p.Max
	if n < 0 {
		n = MaxInstances
	}
	if p.Names != nil {
		n = min(n, len(p.Names))
	}
	return n
}

// Clamp returns the allowed number of instances nearest to n.
func (p *Pool) Clamp(n int) int { return min(max(n, p.Min), p.Ceiling()) }

// Instances returns the names of the first n instances of a pool, at most Ceiling.
func (g *Agent) Instances(n int) []string {
	n = max(0, min(n, g.Pool.Ceiling()))
	if g.Pool.Names != nil {
		return slices.Clone(g.Pool.Names[:n])
	}
	names := make([]string, n)
	for i := range names {
		names[i] = g.Name + "-" + strconv.Itoa(i+1)
	}
	return names
}

// Number returns the number of an instance, counted from 1. It is 0 for a name that this pool
// does not have, such as one from an earlier version of the file.
func (g *Agent) Number(instance string) int {
	if g.Pool.Names != nil {
		return slices.Index(g.Pool.Names, instance) + 1
	}
	digits, ok := strings.CutPrefix(instance, g.Name+"-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > MaxInstances || strconv.Itoa(n) != digits {
		return 0
	}
	return n
}

// Instance identifies an instance of a pool. It is zero for an agent that is not in a pool.
type Instance struct {
	Pool   string // the name of the pool
	Number int    // see Agent.Number
}

// instance returns an instance of a pool.
func (g *Agent) instance(name string) *Agent {
	made := *g
	made.Name, made.Pool = name, nil
	made.DependsOn, made.Suspended = nil, false // apply to the pool
	made.Instance = Instance{g.Name, g.Number(name)}
	made.Hooks.Death = g.Pool.OnDeath
	return &made
}

// TaskPools returns the pools whose tasks the agent at a path takes: the one it is an instance of, that of its name,
// and that of its path in the project. A worker of a pipeline can take those of another pool instead.
func (g *Agent) TaskPools(path string) []string {
	if g.Pipeline != nil && g.Pipeline.Tasks != "" {
		return []string{g.Pipeline.Tasks}
	}
	_, inProject, _ := strings.Cut(path, "/")
	var all []string
	for _, name := range []string{g.Instance.Pool, g.Name, inProject} {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// pool returns the supervisor of a pool.
func (g *Agent) pool() *Node {
	return &Node{
		Name: g.Name, Template: g, DependsOn: g.DependsOn, Suspended: g.Suspended,
		Limit:   supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin),
		Backoff: DefaultBackoff(),
	}
}

// Pools returns the pools of the tree by path.
func (t *Tree) Pools() map[string]*Node {
	pools := make(map[string]*Node)
	for path, c := range t.All() {
		if c.Node != nil && c.Node.Template != nil {
			pools[path] = c.Node
		}
	}
	return pools
}

// Layout returns the tree with the given instances, by path of their pool, sorted by number.
// Instances without a number come last. A pool that is not in the map has no instances. The
// result shares unchanged parts with t.
func (t *Tree) Layout(instances map[string][]string) *Tree {
	laid := *t
	laid.Root = t.Root.layout(t.Root.Name, instances)
	return &laid
}

// Minimal returns the tree with the minimum of instances in each pool.
func (t *Tree) Minimal() *Tree {
	instances := make(map[string][]string)
	for path, n := range t.Pools() {
		instances[path] = n.Template.Instances(n.Template.Pool.Min)
	}
	return t.Layout(instances)
}

// Populated returns the tree with the instances that are among the paths.
func (t *Tree) Populated(paths iter.Seq[string]) *Tree {
	pools, instances := t.Pools(), make(map[string][]string)
	for path := range paths {
		if i := strings.LastIndexByte(path, '/'); i > 0 && pools[path[:i]] != nil {
			instances[path[:i]] = append(instances[path[:i]], path[i+1:])
		}
	}
	return t.Layout(instances)
}

func (n *Node) layout(path string, instances map[string][]string) *Node {
	laid := *n
	if n.Template != nil {
		laid.Children = nil
		for _, name := range n.Template.Sorted(instances[path]) {
			laid.Children = append(laid.Children, Child{Agent: n.Template.instance(name)})
		}
		return &laid
	}
	laid.Children = slices.Clone(n.Children)
	same := true
	for i, c := range laid.Children {
		if c.Node == nil {
			continue
		}
		laid.Children[i].Node = c.Node.layout(path+"/"+c.Node.Name, instances)
		same = same && laid.Children[i].Node == c.Node
	}
	if same {
		return n
	}
	return &laid
}

// Sorted returns the names of instances without duplicates, sorted by number. Those without a
// number come last, sorted by name.
func (g *Agent) Sorted(names []string) []string {
	number := make(map[string]int, len(names))
	for _, name := range names {
		number[name] = cmp.Or(g.Number(name), MaxInstances+1)
	}
	return slices.SortedFunc(maps.Keys(number), func(a, b string) int {
		return cmp.Or(number[a]-number[b], strings.Compare(a, b))
	})
}

// checkPool checks a pool and fills in its defaults.
func (c checker) checkPool(g *Agent) {
	if g.Pool == nil {
		return
	}
	p := *g.Pool
	g.Pool = &p
	if g.Limit == (supervisor.Limit{}) {
		// A constantly failing instance must not bring down the others.
		g.Limit = DefaultPatrol().Limit
	}
	c.checkPoolSize(g)
	c.checkPoolNames(g)
	timeout := func(field string, d *time.Duration, otherwise time.Duration) {
		*d = cmp.Or(*d, otherwise)
		c.checkTime(*d, "pool", field)
		if *d > MaxDrainTimeout {
			c.problem([]string{"pool", field}, "", "%s is %v, expected at most %v", field, *d, MaxDrainTimeout)
		}
	}
	timeout("check_timeout", &p.CheckTimeout, DefaultCheckTimeout)
	timeout("drain_timeout", &p.DrainTimeout, DefaultDrainTimeout)
	if p.Check != nil {
		c.checkCommand(p.Check, "pool", "check")
	}
	c.checkHook(&p.OnBoot, "pool", "on_boot")
	c.checkHook(&p.OnDeath, "pool", "on_death")
	if g.Significant {
		c.problem([]string{"significant"}, "remove it",
			"significant in a pool, expected none there: its instances come and go")
	}
}

func (c checker) checkPoolSize(g *Agent) {
	p := g.Pool
	at := func(field string) []string { return []string{"pool", field} }
	switch {
	case p.Min < 0 || p.Min > MaxInstances:
		c.problem(at("min"), "", "min is %d, expected 0 to %d", p.Min, MaxInstances)
	case p.Max < UnlimitedPool || p.Max > MaxInstances:
		c.problem(at("max"), "", "max is %d, expected 0 to %d, or %d for no limit", p.Max, MaxInstances,
			UnlimitedPool)
	case p.Names != nil && len(p.Names) < p.Min:
		c.problem(at("min"), "add names to the namepool",
			"min is %d, expected at most %d, the number of names", p.Min, len(p.Names))
	case p.Names != nil && p.Max > len(p.Names):
		c.problem(at("max"), "add names to the namepool",
			"max is %d, expected at most %d, the number of names", p.Max, len(p.Names))
	case p.Min > p.Ceiling():
		c.problem(at("min"), "", "min is %d, above max, which is %d; expected at most that", p.Min, p.Max)
	case p.Names == nil && p.Ceiling() > 0 && CheckName(g.Name) == "":
		if last := g.Instances(p.Ceiling())[p.Ceiling()-1]; CheckName(last) != "" {
			c.problem([]string{"name"}, "", "the name %s is too long for a pool: its instance %s has %d "+
				"bytes, expected at most %d", Quote(g.Name), Quote(last), len(last), MaxName)
		}
	}
}

func (c checker) checkPoolNames(g *Agent) {
	at := []string{"pool", "namepool"}
	if g.Pool.Names != nil && len(g.Pool.Names) == 0 {
		c.problem(at, "", "namepool is empty, expected at least one name")
	}
	if n := len(g.Pool.Names); n > MaxInstances {
		c.problem(at, "", "namepool has %d names, expected at most %d", n, MaxInstances)
		return
	}
	seen := make(map[string]bool, len(g.Pool.Names))
	for n, name := range g.Pool.Names {
		at := append(at[:2:2], strconv.Itoa(n))
		if wrong := CheckName(name); wrong != "" {
			c.problem(at, "", "%s", wrong)
		} else if seen[name] {
			c.problem(at, "remove one of the two", "the name %s is there twice, expected once", Quote(name))
		}
		seen[name] = true
	}
}
