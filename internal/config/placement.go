package config

import (
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// placementKeys returns the keys that say on which nodes of a fleet an agent may run.
func placementKeys() []toml.Key[agent] {
	return []toml.Key[agent]{
		{Name: "node", Type: "string", Default: "that of the controller", Doc: "the only node that may run it, or " +
			"the instances of its pool: a name that `coppice node ls` shows. Not with `labels`, `spread` or " +
			"`max_per_node`. These four keys have an effect only in a [fleet of several " +
			"machines](fleet.md#where-agents-run), where an agent with none of them runs on the node of the " +
			"controller. A change of them restarts it only if its node no longer fits",
			Also: []string{"host", "hostname", "machine", "node_name", "nodename", "run_on"},
			Read: toml.Text(func(a *agent) *string { return &a.Placement.Node })},
		{Name: "labels", Type: "table of strings", Doc: "the labels that a node must have to run it, such as " +
			"`{ zone = \"eu\", gpu = \"yes\" }`. A node gets its labels by `coppice cluster init --label` or " +
			"`coppice cluster join --label`. See `node`",
			Also: []string{"node_selector", "nodeselector", "node_labels", "label", "selector", "constraints"},
			Read: toml.StringMap(`a table of strings such as { zone = "eu" }`,
				func(a *agent) *map[string]string { return &a.Placement.Labels })},
		{Name: "spread", Type: "string", Default: "over nodes", Doc: "a label of nodes: the instances of its pool, " +
			"or else the agents directly below its supervisor, are spread evenly over the values of the label. With " +
			"`\"zone\"`, as many run in each zone. It runs only on nodes with the label. See `node`",
			Also: []string{"spread_by", "spread_over", "topology_key", "topologykey", "anti_affinity"},
			Read: toml.Text(func(a *agent) *string { return &a.Placement.Spread })},
		{Name: "max_per_node", Type: "integer", Default: "no limit", Doc: "how many instances of its pool, or else " +
			"agents directly below its supervisor, a node may have for this one to be placed on it, with this one: " +
			"at least 1. See `node`",
			Also: []string{"maxpernode", "per_node", "max_replicas_per_node"},
			Read: toml.Int(1, spec.MaxPerNode, func(a *agent) *int { return &a.Placement.MaxPerNode })},
	}
}
