package nodes

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
)

// Summary describes a node in short.
type Summary struct {
	_ struct{} `schema:"FleetNode" doc:"A machine of the fleet."`

	Name       string            `json:"name" doc:"Its name."`
	State      State             `json:"state" enum:"ready,draining,lost,joined" doc:"ready; draining: it gives its agents away; lost: it was stopped, or is cut off; joined: it has not run yet. Readers must expect others."`
	Controller bool              `json:"controller,omitempty" doc:"Whether it is the controller; not there if not."`
	Agents     int               `json:"agents" minimum:"0" doc:"How many agents run on it, or have run there last."`
	Capacity   int               `json:"capacity,omitempty" doc:"How many it takes; not there if it takes any number."`
	Labels     map[string]string `json:"labels,omitempty" doc:"Its labels; not there if it has none."`
	OtherFiles bool              `json:"other_files,omitempty" doc:"Whether its files of the project differ from those of the controller, which count until it takes over; not there if not."`
}

// Known returns what the controller knows of all nodes, by name, without asking the store. p may be nil: there is no
// fleet, and there are no nodes.
func Known(p *placing.Places) []Summary {
	if p == nil {
		return nil
	}
	return summarize(p.Nodes(), p.Count(), p.IsUp, p.Node)
}

func summarize(all []registry.Node, agents map[string]int, isUp func(node string) bool, controller string) []Summary {
	var nodes []Summary
	files := filesOf(all, controller)
	for _, n := range all {
		s := Summary{
			Name: n.Name, State: Ready, Controller: n.Name == controller, Agents: agents[n.Name], Capacity: n.Capacity,
			Labels: n.Labels,
		}
		switch {
		case n.Epoch == 0:
			s.State = Joined
		case n.Ends, !isUp(n.Name):
			s.State = Lost
		case n.Draining:
			s.State = Draining
		}
		s.OtherFiles = s.State.runs() && n.HasOther(files)
		nodes = append(nodes, s)
	}
	return nodes
}

// maxReasons bounds the nodes that NoTaker names.
const maxReasons = 5

// NoTaker says why no other node takes the agents of a node; "" if one does, unless their settings keep them away.
func NoTaker(all []Summary, node string) string {
	var reasons []string
	for _, n := range all {
		switch {
		case n.Name == node:
		case n.State != Ready:
			reasons = append(reasons, fmt.Sprintf("%s is %s", n.Name, n.State))
		case n.Capacity > 0 && n.Agents >= n.Capacity:
			reasons = append(reasons, fmt.Sprintf("%s is full (%d/%d agents)", n.Name, n.Agents, n.Capacity))
		default:
			return ""
		}
	}
	if len(reasons) == 0 {
		return "the fleet has no other node"
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("and so on for %d more", more))
	}
	return "no other node takes agents: " + strings.Join(reasons, ", ")
}
