package task

import (
	"encoding/json"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
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
	listDoc  = "Ordered by priority, then by age."
	claimDoc = "A claim of an agent belongs to its incarnation. When that ends, the task is open again."
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
		ID: "countTasks", Summary: "Count tasks", Doc: "All tasks that the parameters select.",
		Returns: "The number of tasks.",
	}
	// Show returns a task with its text and its comments.
	Show = api.Route[ShowRequest, Detail]{
		Method: "GET", Path: "/task", For: both,
		ID: "task", Summary: "Get a task with its text, comments and children", Returns: "The task.",
	}
	// Add creates a task, and returns when it is durable.
	Add = api.Route[AddRequest, Task]{
		Method: "POST", Path: "/tasks", For: both, MaxBody: maxTaskBody,
		ID: "addTask", Summary: "Create a task",
		Doc:     "Answers when the task is durable. Creating a task again under the same key returns the existing one.",
		Returns: "The task.",
	}
	// Change edits a task.
	Change = api.Route[EditRequest, Task]{
		Method: "POST", Path: "/task/edit", For: both, MaxBody: maxTaskBody,
		ID: "editTask", Summary: "Edit a task",
		Doc: "An agent cannot edit a task that another one has claimed.", Returns: "The task.",
	}
	// AddComment adds a comment to a task.
	AddComment = api.Route[CommentRequest, Task]{
		Method: "POST", Path: "/task/comment", For: both, MaxBody: maxCommentBody,
		ID: "commentTask", Summary: "Comment on a task", Returns: "The task.",
	}
	// Claim claims a task and returns it; none if nothing is ready.
	Claim = api.Route[ClaimRequest, []Task]{
		Method: "POST", Path: "/task/claim", For: both,
		ID: "claimTask", Summary: "Claim a task", Doc: claimDoc,
		Returns: "The claimed task; an empty list if no task is ready.",
	}
	// Act releases, closes, reopens or retries a task.
	Act = api.Route[ActRequest, Task]{
		Method: "POST", Path: "/task/act", For: both,
		ID: "actOnTask", Summary: "Release, close, reopen or retry a task", Returns: "The task.",
	}
	// Block makes a task wait for a condition.
	Block = api.Route[BlockRequest, Task]{
		Method: "POST", Path: "/task/block", For: api.People,
		ID: "blockTask", Summary: "Let a task wait for a condition",
		Doc:     "A claim on the task ends. Agents report the outcome blocked instead, which cannot name a command.",
		Returns: "The task.",
	}
	// Todo returns the tasks that the calling agent holds, and the first ones that it can claim.
	Todo = api.Route[api.None, []Task]{
		Method: "GET", Path: "/todo", For: api.Agents,
		ID: "todo", Summary: "List the tasks that the calling agent holds, and the first that it can claim",
		Returns: "The tasks.",
	}
	// Await waits until a task is ready, and claims it for the calling agent. It returns none on
	// a timeout, or when the agent is asked to finish.
	Await = api.Route[WaitRequest, []Task]{
		Method: "POST", Path: "/task/await", For: api.Agents, Waits: true,
		ID: "awaitTask", Summary: "Claim a task as the calling agent, and wait until one is ready",
		Doc: "A stream of one message, in the format of the event stream: the claimed task; an empty list on a " +
			"timeout, or when the agent is asked to finish.",
		Returns: "A stream of one list.",
	}
	// Pools lists what is known of the pools of tasks.
	Pools = api.Route[api.None, []pools.Pool]{
		Method: "GET", Path: "/tasks/pools", For: both,
		ID: "taskPools", Summary: "List the pools of tasks that are paused, or have met obstacles",
		Doc: "Pools that are not listed are open.", Returns: "The pools, ordered by name.",
	}
	// ActOnPool pauses or resumes the tasks of a pool.
	ActOnPool = api.Route[PoolRequest, pools.Pool]{
		Method: "POST", Path: "/tasks/pool", For: api.People,
		ID: "actOnTaskPool", Summary: "Pause or resume the tasks of a pool",
		Doc:     "A pool that was paused because its tasks have failed resumes with one task, whose attempt decides.",
		Returns: "The pool.",
	}
	// Import creates tasks from beads.
	Import = api.Route[ImportRequest, ImportReport]{
		Method: "POST", Path: "/tasks/import", For: api.People, MaxBody: maxImportBody,
		ID: "importTasks", Summary: "Import beads",
		Doc: "At most 1000 beads and 2 MiB; tasks must come after those they wait for. An existing task is " +
			"replaced only by a newer bead. After an error, the beads before the named one are imported.",
		Returns: "The numbers of created, updated and unchanged tasks.",
	}
	// Export returns tasks as beads, one page at a time.
	Export = api.Route[ExportRequest, BeadPage]{
		Method: "GET", Path: "/tasks/export", For: api.People,
		ID: "exportTasks", Summary: "Export tasks as beads, one page at a time", Doc: "Ordered by id.",
		Returns: "One page of beads.",
	}
)

// Filter selects tasks. The zero value selects all that are not closed.
type Filter struct {
	Statuses []string `json:"status,omitempty" doc:"Only tasks of these statuses: open, in_progress, blocked, deferred, parked, closed. Default: all but closed."`
	Pool     string   `json:"pool,omitempty" doc:"Only tasks of this pool."`
	Assignee string   `json:"assignee,omitempty" doc:"Only tasks that are assigned to this agent or person, or claimed by it."`
	Labels   []string `json:"label,omitempty" doc:"Only tasks with all of these labels."`
	Type     string   `json:"type,omitempty" doc:"Only tasks of this type."`
	Parent   string   `json:"parent,omitempty" doc:"Only children of this task."`
	Ready    bool     `json:"ready,omitempty" doc:"Only tasks that can be claimed now."`
	Active   bool     `json:"active,omitempty" doc:"Only tasks that can be claimed now, and tasks that are claimed."`
	All      bool     `json:"all,omitempty" doc:"Also closed tasks."`
	// EndedSince selects tasks that were tried or closed lately.
	EndedSince string `json:"ended_since,omitempty" doc:"Only tasks that were closed, or of which an attempt has ended, at this time or later: a time of RFC 3339."`
	endedSince time.Time
}

// ListRequest selects a page of tasks.
type ListRequest struct {
	Filter
	Limit uint64 `json:"limit,omitempty" doc:"Maximum number of tasks, at most 5000; 0 means 5000."`
	After string `json:"after,omitempty" doc:"Only tasks after the one with this id, the last one of the previous page. 409 if it no longer exists."`
}

// Counted is a number of tasks.
type Counted struct {
	_ struct{} `schema:"TaskCount" doc:"A number of tasks."`

	Count int `json:"count" minimum:"0" doc:"Number of selected tasks."`
}

// ShowRequest names a task.
type ShowRequest struct {
	ID    string `json:"id" doc:"Id of the task, such as web-x4k; the prefix may be left out."`
	Brief bool   `json:"brief,omitempty" doc:"Leave its text and its comments out."`
}

// AddRequest asks to create a task.
type AddRequest struct {
	_ struct{} `schema:"TaskAdd" open:"true" doc:"A task to be created."`

	Task Draft  `json:"task"`
	By   string `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// EditRequest asks to edit a task.
type EditRequest struct {
	_ struct{} `schema:"TaskEdit" open:"true" doc:"Changes of a task."`

	ID   string `json:"id" doc:"The task."`
	Edit Edit   `json:"edit"`
	By   string `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// CommentRequest asks to add a comment.
type CommentRequest struct {
	_ struct{} `schema:"TaskComment" open:"true" doc:"A comment to be added to a task."`

	ID   string `json:"id" doc:"The task."`
	Text string `json:"text" doc:"At most 64 KiB."`
	Key  string `json:"key,omitempty" doc:"A comment with the same key is added only once."`
	By   string `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// ClaimRequest asks to claim a task.
type ClaimRequest struct {
	_ struct{} `schema:"TaskClaim" open:"true" doc:"The task to claim: the one with the id, or else the first ready task that is assigned to the caller or in one of the pools."`

	ID    string   `json:"id,omitempty" doc:"The task."`
	Pools []string `json:"pools,omitempty" doc:"Default: the pools of the agent."`
	Any   bool     `json:"any,omitempty" doc:"Also claim a task without pool and assignee, if there is no other."`
	Key   string   `json:"key,omitempty" doc:"A request with the same key gets the same task."`
	By    string   `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// WaitRequest asks to claim a task as soon as one is ready.
type WaitRequest struct {
	_ struct{} `schema:"TaskWait" open:"true" doc:"A claim that waits until a task is ready."`

	Pools  []string `json:"pools,omitempty" doc:"Default: the pools of the agent."`
	Any    bool     `json:"any,omitempty" doc:"Also claim a task without pool and assignee, if there is no other."`
	Key    string   `json:"key,omitempty" doc:"A request with the same key gets the same task."`
	Within float64  `json:"within_seconds,omitempty" minimum:"0" doc:"Longest wait; by default, or with 0, as long as the incarnation runs."`
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
	Approve Action = "approve"
	Reject  Action = "reject"
)

// Actions returns all actions.
func Actions() []Action { return []Action{Release, Close, Reopen, Retry, Approve, Reject} }

// ActRequest asks for an action on a task.
type ActRequest struct {
	_ struct{} `schema:"TaskAct" open:"true" doc:"An action on a task."`

	ID      string  `json:"id" doc:"The task."`
	Action  Action  `json:"action" enum:"release,close,reopen,retry,approve,reject" doc:"The action. People approve and reject tasks about which they are asked: such a task is open again, or cancelled."`
	Reason  string  `json:"reason,omitempty" doc:"The reason; at most 4 KiB."`
	Outcome Outcome `json:"outcome,omitempty" enum:"completed,cancelled" doc:"For close. Default: completed."`
	Force   bool    `json:"force,omitempty" doc:"For close: even if the task has open children."`
	By      string  `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// BlockRequest asks to let a task wait for a condition.
type BlockRequest struct {
	_ struct{} `schema:"TaskBlock" open:"true" doc:"A condition that a task is to wait for."`

	ID        string            `json:"id" doc:"The task."`
	Condition outcome.Condition `json:"condition" doc:"Of kind task, time, service, event, person, or command: a command that exits with 0, which runs as the user of the daemon."`
	Reason    string            `json:"reason,omitempty" doc:"The reason; at most 4 KiB."`
	By        string            `json:"by,omitempty" doc:"Name of the calling person."`
}

// PoolRequest asks to pause or resume the tasks of a pool.
type PoolRequest struct {
	_ struct{} `schema:"TaskPoolAct" open:"true" doc:"An action on the tasks of a pool."`

	Pool   string     `json:"pool" doc:"Name of the pool."`
	Action PoolAction `json:"action" enum:"pause,resume" doc:"The action."`
	Reason string     `json:"reason,omitempty" doc:"The reason of a pause; at most 4 KiB."`
	By     string     `json:"by,omitempty" doc:"Name of the calling person."`
}

// PoolAction is an action on the tasks of a pool.
type PoolAction string

// Actions on the tasks of a pool.
const (
	PausePool  PoolAction = "pause"
	ResumePool PoolAction = "resume"
)

// ImportRequest asks to import beads. Tasks come after those they wait for.
type ImportRequest struct {
	_ struct{} `schema:"TaskImport" open:"true" doc:"Beads to be imported."`

	Beads []json.RawMessage `json:"beads" doc:"Objects as in .beads/issues.jsonl; at most 1000."`
	By    string            `json:"by,omitempty" doc:"Name of the calling person; not for agents."`
}

// ImportReport counts what an import has done.
type ImportReport struct {
	_ struct{} `open:"true" doc:"The result of an import."`

	Created   int `json:"created" minimum:"0" doc:"Number of new tasks."`
	Updated   int `json:"updated" minimum:"0" doc:"Number of tasks that were older than their bead."`
	Unchanged int `json:"unchanged" minimum:"0" doc:"Number of tasks that were not older than their bead."`
}

// ExportRequest selects a page of an export.
type ExportRequest struct {
	After string `json:"after,omitempty" doc:"Only tasks after this id."`
}

// BeadPage is one page of an export.
type BeadPage struct {
	_ struct{} `open:"true" doc:"One page of tasks as beads."`

	Beads []json.RawMessage `json:"beads" doc:"Objects as in .beads/issues.jsonl, ordered by id."`
	Next  string            `json:"next,omitempty" doc:"The value of after for the next page; missing on the last page."`
}
