package task

import (
	"encoding/json"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

// Bounds on bodies with texts, in bytes. JSON may take six bytes for one.
const (
	maxTaskBody    = 6*MaxText + 64<<10
	maxCommentBody = 6*MaxComment + 8<<10
	maxImportBody  = MaxImportBytes + MaxBead + 64<<10
)

// Bounds on an import: MaxBead bounds one bead in bytes, the others one request.
const (
	MaxBead        = 1 << 20
	MaxImport      = 1000    // beads
	MaxImportBytes = 2 << 20 // bytes of all beads
)

// MaxPage bounds the tasks of one answer.
const MaxPage = 5000

const (
	listDoc  = "What comes first is first: by priority, then by age."
	claimDoc = "What an agent has claimed is its incarnation's, and is open again when that is over."
	both     = api.People | api.Agents
)

// Routes for tasks. The caller is an agent or a person.
var (
	// List returns one page of tasks; see ListAll.
	List = api.Route[ListRequest, []Task]{
		Method: "GET", Path: "/tasks", For: both,
		ID: "listTasks", Summary: "List tasks", Doc: listDoc, Returns: "The tasks.",
	}
	// Count returns how many tasks are selected.
	Count = api.Route[Filter, Counted]{
		Method: "GET", Path: "/tasks/count", For: both,
		ID: "countTasks", Summary: "Count tasks", Doc: "All that are selected.", Returns: "How many there are.",
	}
	// Show returns a task with its text and its comments.
	Show = api.Route[ShowRequest, Detail]{
		Method: "GET", Path: "/task", For: both,
		ID: "task", Summary: "All there is of one task", Returns: "The task.",
	}
	// Add creates a task, and returns when it is durable.
	Add = api.Route[AddRequest, Task]{
		Method: "POST", Path: "/tasks", For: both, MaxBody: maxTaskBody,
		ID: "addTask", Summary: "Make a task",
		Doc:     "The answer comes when the task is durable. What is made again under the same key is made once.",
		Returns: "The task.",
	}
	// Change edits a task.
	Change = api.Route[EditRequest, Task]{
		Method: "POST", Path: "/task/edit", For: both, MaxBody: maxTaskBody,
		ID: "editTask", Summary: "Change a task",
		Doc: "An agent cannot change what somebody else has claimed.", Returns: "The task.",
	}
	// AddComment adds a comment to a task.
	AddComment = api.Route[CommentRequest, Task]{
		Method: "POST", Path: "/task/comment", For: both, MaxBody: maxCommentBody,
		ID: "commentTask", Summary: "Say something about a task", Returns: "The task.",
	}
	// Claim claims a task and returns it; none if nothing is ready.
	Claim = api.Route[ClaimRequest, []Task]{
		Method: "POST", Path: "/task/claim", For: both,
		ID: "claimTask", Summary: "Claim a task", Doc: claimDoc,
		Returns: "The task that was claimed; none if nothing is ready.",
	}
	// Act releases, closes, reopens or retries a task.
	Act = api.Route[ActRequest, Task]{
		Method: "POST", Path: "/task/act", For: both,
		ID: "actOnTask", Summary: "Release, close, reopen or retry a task", Returns: "The task.",
	}
	// Todo returns the tasks that the calling agent holds, and the first ones that it can claim.
	Todo = api.Route[api.None, []Task]{
		Method: "GET", Path: "/todo", For: api.Agents,
		ID: "todo", Summary: "What the calling agent has claimed, and the first that it can claim",
		Returns: "The tasks.",
	}
	// Await waits until a task is ready, and claims it for the calling agent. It returns none on
	// a timeout, or when the agent is asked to finish.
	Await = api.Route[WaitRequest, []Task]{
		Method: "POST", Path: "/task/await", For: api.Agents, Waits: true,
		ID: "awaitTask", Summary: "Claim a task as the calling agent, and wait until one is ready",
		Doc: "A stream, as that of events, of one message: the task; none when the time is over, " +
			"or the agent is asked to finish.",
		Returns: "A stream of one list.",
	}
	// Import creates tasks from beads.
	Import = api.Route[ImportRequest, ImportReport]{
		Method: "POST", Path: "/tasks/import", For: api.People, MaxBody: maxImportBody,
		ID: "importTasks", Summary: "Make tasks of beads",
		Doc: "At most 1000 beads and 2 MiB, what is waited for before what waits for it. A task that is there " +
			"is replaced only by what is newer. What fails is named, what was before it is done.",
		Returns: "What became of them.",
	}
	// Export returns tasks as beads, one page at a time.
	Export = api.Route[ExportRequest, BeadPage]{
		Method: "GET", Path: "/tasks/export", For: api.People,
		ID: "exportTasks", Summary: "Tasks as beads, by pages", Doc: "In the order of their ids.",
		Returns: "Some of them.",
	}
)

// Filter selects tasks. The zero value selects all that are not closed.
type Filter struct {
	Statuses []string `json:"status,omitempty" doc:"Only tasks of these statuses: open, in_progress, blocked, deferred, parked, closed. All but closed if there are none."`
	Pool     string   `json:"pool,omitempty" doc:"Only tasks of this pool."`
	Assignee string   `json:"assignee,omitempty" doc:"Only tasks that are assigned to this agent or person, or claimed by it."`
	Labels   []string `json:"label,omitempty" doc:"Only tasks with all of these labels."`
	Type     string   `json:"type,omitempty" doc:"Only tasks of this type."`
	Parent   string   `json:"parent,omitempty" doc:"Only children of this task."`
	Ready    bool     `json:"ready,omitempty" doc:"Only what can be claimed now."`
	Active   bool     `json:"active,omitempty" doc:"Only tasks that can be claimed now, and tasks that are claimed."`
	All      bool     `json:"all,omitempty" doc:"Closed tasks, too."`
}

// ListRequest selects a page of tasks.
type ListRequest struct {
	Filter
	Limit uint64 `json:"limit,omitempty" doc:"The first so many, at most 5000; 0 is 5000."`
	After string `json:"after,omitempty" doc:"Only tasks that come after the one with this id: the last one of the page before. 409 if that is gone."`
}

// Counted is a number of tasks.
type Counted struct {
	_ struct{} `schema:"TaskCount" doc:"How many tasks there are."`

	Count int `json:"count" minimum:"0" doc:"Tasks that are selected."`
}

// ShowRequest names a task.
type ShowRequest struct {
	ID string `json:"id" doc:"The task, such as web-x4k; its beginning may be left out."`
}

// AddRequest asks to create a task.
type AddRequest struct {
	_ struct{} `schema:"TaskAdd" open:"true" doc:"A task that is to be made."`

	Task Draft  `json:"task"`
	By   string `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// EditRequest asks to edit a task.
type EditRequest struct {
	_ struct{} `schema:"TaskEdit" open:"true" doc:"What is to be different about a task."`

	ID   string `json:"id" doc:"The task."`
	Edit Edit   `json:"edit"`
	By   string `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// CommentRequest asks to add a comment.
type CommentRequest struct {
	_ struct{} `schema:"TaskComment" open:"true" doc:"Something to be said about a task."`

	ID   string `json:"id" doc:"The task."`
	Text string `json:"text" doc:"At most 64 KiB."`
	Key  string `json:"key,omitempty" doc:"What is said again under the same key is said once."`
	By   string `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// ClaimRequest asks to claim a task.
type ClaimRequest struct {
	_ struct{} `schema:"TaskClaim" open:"true" doc:"Which task somebody wants to do: that of the id; or the first that is ready, of those assigned to who asks, then of the pools."`

	ID    string   `json:"id,omitempty" doc:"The task."`
	Pools []string `json:"pools,omitempty" doc:"An agent's own if there are none."`
	Any   bool     `json:"any,omitempty" doc:"If there is none of those, one that has no pool and no assignee."`
	Key   string   `json:"key,omitempty" doc:"The same again gets the same task."`
	By    string   `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// WaitRequest asks to claim a task as soon as one is ready.
type WaitRequest struct {
	_ struct{} `schema:"TaskWait" open:"true" doc:"A claim of an agent that waits until a task is ready."`

	Pools  []string `json:"pools,omitempty" doc:"An agent's own if there are none."`
	Any    bool     `json:"any,omitempty" doc:"If there is none of those, one that has no pool and no assignee."`
	Key    string   `json:"key,omitempty" doc:"The same again gets the same task."`
	Within float64  `json:"within_seconds,omitempty" minimum:"0" doc:"How long it waits at most; 0 or left out: as long as the agent lives."`
}

// Timeout returns the longest wait, 0 for no limit.
func (w WaitRequest) Timeout() time.Duration { return time.Duration(w.Within * float64(time.Second)) }

// Action is an action on a task.
type Action string

// Actions on a task.
const (
	Release Action = "release"
	Close   Action = "close"
	Reopen  Action = "reopen"
	Retry   Action = "retry"
)

// Actions returns all actions.
func Actions() []Action { return []Action{Release, Close, Reopen, Retry} }

// ActRequest asks for an action on a task.
type ActRequest struct {
	_ struct{} `schema:"TaskAct" open:"true" doc:"Something to be done to a task."`

	ID      string  `json:"id" doc:"The task."`
	Action  Action  `json:"action" enum:"release,close,reopen,retry" doc:"What is to be done."`
	Reason  string  `json:"reason,omitempty" doc:"Why; at most 4 KiB."`
	Outcome Outcome `json:"outcome,omitempty" enum:"completed,failed,cancelled" doc:"Of close; completed if it is left out."`
	Force   bool    `json:"force,omitempty" doc:"Of close: though it has children that are not closed."`
	By      string  `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// ImportRequest asks to import beads. Tasks come after those they wait for.
type ImportRequest struct {
	_ struct{} `schema:"TaskImport" open:"true" doc:"Beads that are to become tasks."`

	Beads []json.RawMessage `json:"beads" doc:"Objects as in .beads/issues.jsonl; at most 1000."`
	By    string            `json:"by,omitempty" doc:"Name of the person who asks; not for agents."`
}

// ImportReport counts what an import has done.
type ImportReport struct {
	_ struct{} `open:"true" doc:"What became of beads."`

	Created   int `json:"created" minimum:"0" doc:"New tasks."`
	Updated   int `json:"updated" minimum:"0" doc:"Tasks that were older than the bead."`
	Unchanged int `json:"unchanged" minimum:"0" doc:"Tasks that were not."`
}

// ExportRequest selects a page of an export.
type ExportRequest struct {
	After string `json:"after,omitempty" doc:"Only those after this id."`
}

// BeadPage is one page of an export.
type BeadPage struct {
	_ struct{} `open:"true" doc:"Some tasks as beads."`

	Beads []json.RawMessage `json:"beads" doc:"Objects as in .beads/issues.jsonl, in the order of their ids."`
	Next  string            `json:"next,omitempty" doc:"What to ask for to get those after them; left out if there are none."`
}
