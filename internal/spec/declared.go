package spec

import (
	"fmt"
	"path"
	"strings"
)

// declared is what patterns of [[quota]] and [[budget]] may match.
type declared struct {
	paths  []string          // of all nodes
	agents map[string]*Agent // by path; a pool has that of its template
}

func newDeclared(tree *Tree) declared {
	d := declared{agents: map[string]*Agent{}}
	for at, child := range tree.All() {
		d.paths = append(d.paths, at)
		switch {
		case child.Agent != nil:
			d.agents[at] = child.Agent
		case child.Node.Template != nil:
			d.agents[at] = child.Node.Template
		}
	}
	return d
}

// mayMatch reports whether a pattern matches an agent, or may match an instance of a pool.
func (d declared) mayMatch(pattern, at string, a *Agent) bool {
	return MatchesPath(pattern, at) ||
		a.Pool != nil && strings.Contains(pattern, "/") && MatchesPath(path.Dir(pattern)+"/", at)
}

// matchesAny reports whether a pattern matches an agent, or may match an instance of a pool.
func (d declared) matchesAny(pattern string) bool {
	for at, a := range d.agents {
		if d.mayMatch(pattern, at, a) {
			return true
		}
	}
	return false
}

// matchesNone adds the fault that a pattern matches no agent.
func (d declared) matchesNone(c checker, at []string, pattern string) {
	var all []string
	for _, at := range d.paths {
		_, below, _ := strings.Cut(at, "/")
		all = append(all, at, below, path.Base(at))
	}
	c.problem(at, DidYouMean(pattern, all...),
		"%s matches no agent, expected the name or path of agents, or a pattern", Quote(pattern))
}

// checkPattern checks a pattern of the names or paths of agents.
func (c checker) checkPattern(at []string, pattern string) bool {
	if _, err := path.Match(pattern, ""); err == nil && pattern != "" {
		return true
	}
	c.problem(at, "", "%s is not a pattern, expected the name or path of agents, such as %s", Quote(pattern),
		`"night/*"`)
	return false
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// CheckPlainName returns what is wrong with a name that may have no other characters than these, or "".
func CheckPlainName(name string) string {
	if strings.Trim(name, nameCharacters) == "" {
		return ""
	}
	return fmt.Sprintf("the name %s, expected letters, digits, dots, dashes and underscores", Quote(name))
}

// checkUnique checks the name of a quota or budget. byName has the index of each name.
func (c checker) checkUnique(kind, name string, byName map[string]int) {
	first, taken := byName[name]
	switch {
	case CheckName(name) != "":
		c.checkName(name)
	case CheckPlainName(name) != "":
		c.problem([]string{"name"}, "", "%s", CheckPlainName(name))
	case taken:
		c.problem([]string{"name"}, "", "the name %s is taken by another %s, expected another one", Quote(name), kind)
		(*c.problems)[len(*c.problems)-1].Other = first + 1
	default:
		byName[name] = c.decl
	}
}
