package belief

import (
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/value"
)

// Bounds on bodies. They exceed the limits of beliefs, so errors name those limits.
const (
	maxStepBody   = 4 << 20
	maxImportBody = 40 << 20
)

const limitsDoc = "Answers when the change is durable. At most 64 values and 1 MiB; a value has at most " +
	"512 KiB, an agent at most 1,000 beliefs and 16 MiB of them."

// Routes for beliefs. An agent reads and changes its own beliefs; people those of any agent, which
// need not run.
var (
	// ReadOwn returns beliefs of the calling agent with their values.
	ReadOwn = api.Route[OwnRequest, []Belief]{
		Method: "GET", Path: "/beliefs", For: api.Agents,
		ID: "ownBeliefs", Summary: "Get beliefs of the calling agent",
		Returns: "The named beliefs in that order, or all of them, sorted; as they were at one moment.",
	}
	// ChangeOwn changes beliefs of the calling agent, and returns when the change is durable.
	ChangeOwn = api.Route[OwnChange, api.None]{
		Method: "POST", Path: "/beliefs", For: api.Agents, MaxBody: maxStepBody,
		ID: "changeOwnBeliefs", Summary: "Change beliefs of the calling agent, all or none",
		Doc: limitsDoc,
	}
	// OpenSummoned opens the beliefs of an agent that the calling one has summoned.
	OpenSummoned = api.Route[SummonedRequest, []Belief]{
		Method: "POST", Path: "/beliefs/summoned", For: api.Agents, MaxBody: maxStepBody,
		ID: "openSummonedBeliefs", Summary: "Open the beliefs of an agent that the calling agent has summoned",
		Doc:     "They are closed with those of the calling agent. An agent may open them again.",
		Returns: "The named beliefs in that order.",
	}
	// List returns the beliefs of the agents at and below a path, without large values.
	List = api.Route[ListRequest, []Agent]{
		Method: "GET", Path: "/beliefs", For: api.People,
		ID: "beliefs", Summary: "List the beliefs of all agents", Doc: "Values of more than 4 KiB are left out.",
		Returns: "The agents with declared or stored beliefs, sorted by path.",
	}
	// Change changes beliefs of an agent, and returns when the change is durable.
	Change = api.Route[ChangeRequest, api.None]{
		Method: "POST", Path: "/beliefs", For: api.People, MaxBody: maxStepBody,
		ID: "changeBeliefs", Summary: "Change beliefs of an agent, which need not run", Doc: limitsDoc,
	}
	// Read returns beliefs of an agent with their values.
	Read = api.Route[ReadRequest, []Belief]{
		Method: "GET", Path: "/beliefs/agent", For: api.People,
		ID: "beliefsOfAgent", Summary: "Get beliefs of an agent with their values",
		Returns: "The named beliefs in that order, or all of them, sorted.",
	}
	// ReadRaw returns the stored records of a belief.
	ReadRaw = api.Route[RawRequest, RawRecords]{
		Method: "GET", Path: "/beliefs/raw", For: api.People,
		ID: "rawBelief", Summary: "Get the stored records of a belief, even if they are damaged",
		Returns: "The records.",
	}
	// Export returns the stored persistent beliefs of an agent.
	Export = api.Route[ExportRequest, Exported]{
		Method: "GET", Path: "/beliefs/export", For: api.People,
		ID: "exportBeliefs", Summary: "Export the persistent beliefs of an agent",
		Returns: "The persistent values.",
	}
	// Import sets any number of beliefs of an agent, all of them or none.
	Import = api.Route[ImportRequest, api.None]{
		Method: "POST", Path: "/beliefs/import", For: api.People, MaxBody: maxImportBody,
		ID: "importBeliefs", Summary: "Set any number of beliefs of an agent, all or none",
		Doc: "Other beliefs stay. Answers when the change is durable.",
	}
)

// OwnRequest selects beliefs of the calling agent.
type OwnRequest struct {
	Names []string `json:"name,omitempty" doc:"Name of a belief; all if there is none."`
}

// ListRequest selects the agents to list.
type ListRequest struct {
	Path string `json:"path,omitempty" doc:"Only agents at and below this path."`
}

// ReadRequest selects beliefs of an agent.
type ReadRequest struct {
	Path  string   `json:"path" doc:"Path of the agent; the first segment may be left out."`
	Names []string `json:"name,omitempty" doc:"Name of a belief; all if there is none."`
}

// RawRequest names a belief.
type RawRequest struct {
	Path string `json:"path" doc:"Path of the agent; the first segment may be left out."`
	Name string `json:"name" doc:"Name of the belief."`
}

// ExportRequest names an agent.
type ExportRequest struct {
	Path string `json:"path" doc:"Path of the agent; the first segment may be left out."`
}

// OwnChange is a change by an agent. It is applied as a whole or not at all.
type OwnChange struct {
	_ struct{} `schema:"BeliefStep" doc:"Changes of beliefs, applied all or none."`

	Set    value.Named `json:"set,omitempty" doc:"Names and their values, any JSON."`
	Delete []string    `json:"delete,omitempty" doc:"Names of beliefs to remove. A declared one gets its initial value again."`
	// Summoned is empty for the beliefs of the calling agent itself.
	Summoned string `json:"summoned,omitempty" doc:"Path, below that of the calling agent, of an agent that it has summoned, whose beliefs change instead."`
}

// SummonedRequest names an agent that the calling one has summoned, and its persistent beliefs.
type SummonedRequest struct {
	_ struct{} `schema:"SummonedBeliefs" doc:"Beliefs of a summoned agent."`

	Agent string   `json:"agent" doc:"Path below that of the calling agent."`
	Names []string `json:"names" doc:"Names of its persistent beliefs."`
}

// ChangeRequest is a change by a person.
type ChangeRequest struct {
	_ struct{} `schema:"BeliefChange" doc:"Changes of an agent's beliefs, applied all or none."`

	Path   string      `json:"path" doc:"Path of the agent."`
	Set    value.Named `json:"set,omitempty" doc:"Names and their values, any JSON."`
	Delete []string    `json:"delete,omitempty" doc:"Names of beliefs to remove."`
	Clear  bool        `json:"clear,omitempty" doc:"Remove all stored beliefs of the agent; cannot be combined with set or delete."`
}

// RawRecords holds the records of a belief, which may be any bytes; empty if there are none.
type RawRecords struct {
	_ struct{} `schema:"RawBelief" open:"true" doc:"The records of a belief."`

	Record []byte `json:"record,omitempty" doc:"The stored record."`
	Aside  []byte `json:"aside,omitempty" doc:"An earlier record that was replaced because it could not be used."`
}

// Exported holds the stored beliefs of an agent.
type Exported struct {
	_ struct{} `schema:"BeliefExport" open:"true" doc:"The stored beliefs of an agent."`

	Beliefs    value.Named `json:"beliefs" doc:"Names and values."`
	Unreadable []string    `json:"unreadable" doc:"Names whose records cannot be read."`
}

// ImportRequest sets beliefs of an agent. Other stored beliefs stay.
type ImportRequest struct {
	_ struct{} `schema:"BeliefImport" doc:"Beliefs to set."`

	Path    string      `json:"path" doc:"Full path of the agent."`
	Beliefs value.Named `json:"beliefs" doc:"Names and values."`
}
