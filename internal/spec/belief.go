package spec

import (
	"cmp"
	"fmt"

	"github.com/coppice-dev/coppice/internal/value"
)

// Limits of beliefs.
const (
	MaxBeliefName = 128  // bytes
	MaxBeliefs    = 1000 // of one agent
)

// Belief declares a named value of an agent. An agent that declares beliefs can have no
// others.
type Belief struct {
	// Name is unique within the agent; see CheckBeliefName.
	Name string
	// Type is the type of its values; the zero value allows any.
	Type value.Type
	// Initial is the value before one is set; if empty, the zero value of the type.
	Initial value.Value
	// Persistent beliefs survive restarts of the agent, the daemon and the machine. Others are
	// reset to Initial in each incarnation.
	Persistent bool
}

// Start returns the value that an agent starts with if none is stored.
func (b Belief) Start() value.Value {
	return cmp.Or(b.Initial, b.Type.Zero())
}

// CheckBeliefName returns the fault of the name of a belief, or "". A name consists of 1 to
// 128 ASCII letters, digits, "_", "-" and ".", and starts with a letter or "_".
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

func (c checker) checkBeliefs(beliefs []Belief) {
	if len(beliefs) > MaxBeliefs {
		c.problem([]string{"beliefs"}, "", "%d beliefs, expected at most %d", len(beliefs), MaxBeliefs)
	}
	seen := make(map[string]bool, len(beliefs))
	for _, b := range beliefs {
		at := []string{"beliefs", b.Name}
		if wrong := CheckBeliefName(b.Name); wrong != "" {
			c.problem(at, "", "%s", wrong)
		}
		if seen[b.Name] {
			c.problem(at, "remove one of the two", "the belief %s is declared twice, expected once", Quote(b.Name))
		}
		seen[b.Name] = true
		if b.Initial != "" && !b.Type.Fits(b.Initial) {
			c.problem(append(at, "initial"), "", "initial of %s is %s, expected a value of type %v", Quote(b.Name),
				value.Describe(b.Initial), b.Type)
		}
	}
}
