package status

import "strings"

// Degraded is the state of a supervisor that runs while something in it needs a
// person: it is quarantined, was given up, is paused or fails again and again.
const Degraded = "degraded"

// deriveStates gives each supervisor of a list that runs the state that follows
// from what is in it. Parents come before their children, whose states are their own.
func deriveStates(nodes []Node) {
	below := make(map[string][]*Node) // by the path of the supervisor
	for i := len(nodes) - 1; i >= 0; i-- {
		n := &nodes[i]
		if n.Kind == "supervisor" {
			state, of := supervisorState(n.State, below[n.Path])
			if state != n.State {
				n.State = state
				switch {
				case of != nil && of.State == Degraded:
					n.Reason = of.Reason
				case of != nil && state == Degraded:
					n.Reason = of.Path + " is " + of.health()
				case of != nil && state == "paused":
					n.Reason = of.Reason
				default:
					n.Reason = "nothing in it runs"
				}
			}
		}
		if at := strings.LastIndexByte(n.Path, '/'); at >= 0 {
			below[n.Path[:at]] = append(below[n.Path[:at]], n)
		}
	}
}

// supervisorState derives the shown state of a supervisor from its own and from
// its children. of is the child that it follows from, if it is one:
//
//   - a supervisor that does not run itself has its own state;
//   - one whose limit has paused it is paused, which its children say;
//   - one with a child that needs a person is degraded;
//   - one with a child that runs, or will on its own, is running;
//   - else it is suspended if something in it is, and stopped if nothing is;
//   - one without children is running.
func supervisorState(own string, children []*Node) (state string, of *Node) {
	if own != "running" {
		return own, nil
	}
	var active, suspended bool
	for _, c := range children {
		switch {
		case c.State == "paused" && c.Kind == "agent":
			return "paused", c
		case c.health() != "":
			of = c // the first one: children come last one first
		case c.State == "suspended":
			suspended = true
		case c.State != "stopped" || c.Aide != nil && !c.StoppedByHand:
			active = true
		}
	}
	switch {
	case of != nil:
		return Degraded, of
	case active || len(children) == 0:
		return own, nil
	case suspended:
		return "suspended", nil
	}
	return "stopped", nil
}

// health names the problem of a node in a word; "" if it has none.
func (n *Node) health() string {
	switch n.State {
	case "quarantined", "paused", Degraded:
		return n.State
	case "given_up":
		return "given up"
	}
	if n.Loop == CrashLoop {
		return "in a crash loop"
	}
	return ""
}
