package spec

import (
	"cmp"
	"fmt"

	"github.com/coppice-dev/coppice/internal/value"
)

// Bounds on beliefs.
const (
	MaxBeliefName = 128  // bytes
	MaxBeliefs    = 1000 // of one agent
)

// Belief declares a named value of an agent. An agent that declares any may
// have no others.
type Belief struct {
	// Name is unique among those of the agent, see CheckBeliefName.
	Name string
	// Type is what is taken; anything if zero.
	Type value.Type
	// Initial is the value before any is set; the zero of the type if empty.
	Initial value.Value
	// Persistent beliefs outlive the incarnation, the daemon and the machine;
	// others are Initial again in each incarnation.
	Persistent bool
}

// Start returns the value that an agent begins with where nothing is kept.
func (b Belief) Start() value.Value {
	return cmp.Or(b.Initial, b.Type.Zero())
}

// CheckBeliefName returns what is wrong with the name of a belief, or "". A name
// is 1 to 128 letters, digits, "_", "-" and "." of ASCII, with a letter or "_" in front.
func CheckBeliefName(name string) string {
	switch {
	case name == "":
		return "the name of a belief is missing"
	case len(name) > MaxBeliefName:
		return fmt.Sprintf("the name %s has %d bytes, expected at most %d", Quote(name), len(name), MaxBeliefName)
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '-' || c == '.')) {
			return fmt.Sprintf("%s cannot name a belief, expected letters, digits, _, - and ., "+
				"with a letter or _ in front", Quote(name))
		}
	}
	return ""
}

func (a *assembly) checkBeliefs(i int, beliefs []Belief) {
	if len(beliefs) > MaxBeliefs {
		a.problem(i, []string{"beliefs"}, "", "%d beliefs, expected at most %d", len(beliefs), MaxBeliefs)
	}
	seen := make(map[string]bool, len(beliefs))
	for _, b := range beliefs {
		at := []string{"beliefs", b.Name}
		if wrong := CheckBeliefName(b.Name); wrong != "" {
			a.problem(i, at, "", "%s", wrong)
		}
		if seen[b.Name] {
			a.problem(i, at, "remove one of the two", "the belief %s is declared twice, expected once", Quote(b.Name))
		}
		seen[b.Name] = true
		if b.Initial != "" && !b.Type.Fits(b.Initial) {
			a.problem(i, append(at, "initial"), "", "initial of %s is %s, expected a value of type %v", Quote(b.Name),
				value.Describe(b.Initial), b.Type)
		}
	}
}
