package spec

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Quota is an account of a command line of a language model, and the agents that use it. The first quota of a tree
// that is for an agent is its own.
type Quota struct {
	Name string
	CLI  agentcli.CLI
	// Agents are patterns, see MatchesPath. If there are none, it is for all agents of the command line.
	Agents []string
	// Models are patterns as for path.Match, where * also stands for "/". If there are some, it is for agents whose
	// model is known and matches one of them.
	Models []string
	// Env and EnvFiles are the variables that choose the account. They take precedence over those of the agent, and
	// Env over the files, which are absolute.
	Env      map[string]string
	EnvFiles []string
	// Next is the name of the quota that its agents go on with when it is used up; empty if there is none.
	Next string
}

// IsFor reports whether the quota is for an agent.
func (q *Quota) IsFor(at string, a *Agent) bool {
	cli := a.Vendor()
	if cli != q.CLI || len(q.Agents) > 0 && !slices.ContainsFunc(q.Agents, func(p string) bool {
		return MatchesPath(p, at)
	}) {
		return false
	}
	if len(q.Models) == 0 {
		return true
	}
	model := agentcli.Model(cli, a.CallCommand(), a.Env)
	return model != "" && slices.ContainsFunc(q.Models, func(p string) bool {
		ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x01"), strings.ReplaceAll(model, "/", "\x01"))
		return ok
	})
}

// MatchesPath reports whether a pattern, as for path.Match, matches a node or one above it: by its name, or by its
// path if the pattern has a "/". The root may be left out.
func MatchesPath(pattern, at string) bool {
	segments := strings.Split(at, "/")
	if !strings.Contains(pattern, "/") {
		return slices.ContainsFunc(segments, func(name string) bool { return matches(pattern, name) })
	}
	pattern = strings.Trim(pattern, "/")
	for n := range segments {
		if matches(pattern, strings.Join(segments[:n+1], "/")) || matches(pattern, strings.Join(segments[1:n+1], "/")) {
			return true
		}
	}
	return false
}

func matches(pattern, text string) bool {
	ok, _ := path.Match(pattern, text)
	return ok
}

// Bounds of quotas.
const (
	MaxQuotas   = 100
	MaxPatterns = 1000 // of all quotas together
)

// IsAutomaticQuota reports whether a name is one that accounts of agents without a quota have: that of a command line,
// which the hash of variables may follow.
func IsAutomaticQuota(name string) bool {
	for _, cli := range agentcli.CLIs() {
		rest, ok := strings.CutPrefix(name, string(cli))
		if ok && (rest == "" || len(rest) == 7 && rest[0] == '-' && strings.Trim(rest[1:], "0123456789abcdef") == "") {
			return true
		}
	}
	return false
}

// CheckQuotas returns the faults of quotas, whose Decl is an index of quotas. If partial is true, a program adds more
// agents to the tree.
func CheckQuotas(tree *Tree, quotas []Quota, partial bool) []Problem {
	c := quotaCheck{declared: newDeclared(tree), quotas: quotas, partial: partial, byName: map[string]int{}}
	patterns := 0
	for i := range quotas {
		c.checkName(i)
		patterns += len(quotas[i].Agents) + len(quotas[i].Models)
	}
	if len(quotas) > MaxQuotas || patterns > MaxPatterns {
		c.problem(0, nil, "", "there are %d quotas with %d patterns, expected at most %d and %d", len(quotas), patterns,
			MaxQuotas, MaxPatterns)
		return c.problems
	}
	for i := range quotas {
		c.checkEnv(i)
		c.checkAgents(i)
		for n, pattern := range quotas[i].Models {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				c.problem(i, []string{"models", strconv.Itoa(n)}, "", "%s is not a pattern, expected one such as %s",
					Quote(pattern), `"*opus*"`)
			}
		}
		c.checkNext(i)
	}
	return c.problems
}

// quotaCheck checks the quotas of a tree.
type quotaCheck struct {
	declared
	quotas   []Quota
	partial  bool
	byName   map[string]int
	problems []Problem
}

func (c *quotaCheck) checker(i int) checker { return checker{i, &c.problems} }

func (c *quotaCheck) problem(i int, at []string, hint, format string, args ...any) {
	c.checker(i).problem(at, hint, format, args...)
}

func (c *quotaCheck) checkName(i int) {
	name := c.quotas[i].Name
	if IsAutomaticQuota(name) {
		c.problem(i, []string{"name"}, "write "+Quote(name+"-main")+", for example",
			"the name %s is that of an account that agents without a [[quota]] share, expected another one",
			Quote(name))
		return
	}
	c.checker(i).checkUnique("quota", name, c.byName)
}

func (c *quotaCheck) checkEnv(i int) {
	q := &c.quotas[i]
	c.checker(i).checkEnv(q.Env)
	c.checker(i).checkFiles("env_file", q.EnvFiles)
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		if strings.HasPrefix(q.Env[name], "~/") {
			c.problem(i, []string{"env", name}, "write the whole path",
				"the value of %s begins with ~, which is not expanded", Quote(name))
		}
	}
}

// checkAgents checks that each pattern of agents matches one that runs the command line.
func (c *quotaCheck) checkAgents(i int) {
	q := &c.quotas[i]
	for n, pattern := range q.Agents {
		at := []string{"agents", strconv.Itoa(n)}
		if !c.checker(i).checkPattern(at, pattern) {
			continue
		}
		found, other := false, "" // the command line of one that runs another
		for _, at := range slices.Sorted(maps.Keys(c.agents)) {
			if a := c.agents[at]; c.mayMatch(pattern, at, a) {
				if cli := a.Vendor(); cli == q.CLI {
					found = true
				} else {
					other = at + " runs " + string(cli)
				}
			}
		}
		switch {
		case found || c.partial:
		case other != "":
			c.problem(i, at, "cli of an agent says which command line a script calls",
				"%s matches no agent that runs %s, expected one: %s", Quote(pattern), q.CLI, other)
		default:
			c.matchesNone(c.checker(i), at, pattern)
		}
	}
}

func (c *quotaCheck) checkNext(i int) {
	q, at := &c.quotas[i], []string{"next"}
	if q.Next == "" {
		return
	}
	n, known := c.byName[q.Next]
	switch {
	case q.Next == q.Name:
		c.problem(i, at, "", "next is the quota itself, expected another one")
	case !known:
		c.problem(i, at, DidYouMean(q.Next, slices.Sorted(maps.Keys(c.byName))...),
			"there is no quota %s, expected the name of one", Quote(q.Next))
	case c.quotas[n].CLI != q.CLI:
		c.problem(i, at, "", "the quota %s is of %s, expected one of %s", Quote(q.Next), c.quotas[n].CLI, q.CLI)
	case maps.Equal(c.quotas[n].Env, q.Env) && slices.Equal(c.quotas[n].EnvFiles, q.EnvFiles):
		c.problem(i, at, "env or env_file chooses the account of a quota",
			"the quota %s has the same env and env_file, expected another account", Quote(q.Next))
	}
}

// UnusedQuotas returns the indices of quotas that no agent of a tree can use.
func UnusedQuotas(tree *Tree, quotas []Quota) (unused []int) {
	used := make([]bool, len(quotas))
	for at, child := range tree.All() {
		a := child.Agent
		if a == nil && child.Node.Template != nil {
			a, at = child.Node.Template, at+"/0"
		}
		if a == nil {
			continue
		}
		if i := slices.IndexFunc(quotas, func(q Quota) bool { return q.IsFor(at, a) }); i >= 0 {
			used[i] = true
			if next := slices.IndexFunc(quotas, func(q Quota) bool { return q.Name == quotas[i].Next }); next >= 0 {
				used[next] = true
			}
		}
	}
	for i, is := range used {
		if !is {
			unused = append(unused, i)
		}
	}
	return unused
}
