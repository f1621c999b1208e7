package task

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/task/pools"
)

// MaxStep bounds the sum of changes, writes and events of a step.
const MaxStep = 80

// Changeset has the changes of a step. They are in its State already, and have to be written together.
type Changeset struct {
	Changes []Changed
	Writes  []Write
	Events  []Event
	state   *State
	pools   []pools.Pool // those that were replaced, as they were before
}

// Changed is a task that a step has replaced or removed.
type Changed struct {
	ID     string
	After  *Record // nil if it was removed
	before *Record
}

// Part is a kind of data that is stored next to the record of a task.
type Part string

// Parts of a task.
const (
	TextPart     Part = "texts"    // the text of the task
	ImportedPart Part = "brought"  // the rest of an imported bead
	CommentPart  Part = "comments" // one of its comments
	AttemptPart  Part = "attempts" // one of its attempts
	PoolPart     Part = "pools"    // not of a task: a pool, by its name
)

// Write is a change of data next to the record of a task.
type Write struct {
	Part  Part
	ID    string
	N     int    // index of a comment, number of an attempt
	Value []byte // nil removes it
}

// Size returns the number that MaxStep bounds.
func (c *Changeset) Size() int { return len(c.Changes) + len(c.Writes) + len(c.Events) }

// Undo reverts the changes in the State.
func (c *Changeset) Undo() {
	for _, change := range slices.Backward(c.Changes) {
		c.state.index.set(change.ID, change.before)
	}
	for _, before := range slices.Backward(c.pools) {
		c.state.setPool(before)
	}
}

// Emit adds an event.
func (c *Changeset) Emit(e Event) { c.Events = append(c.Events, e) }

// set replaces a task, or removes it if r is nil.
func (c *Changeset) set(id string, r *Record) {
	c.Changes = append(c.Changes, Changed{id, r, c.state.index.set(id, r)})
}

func (c *Changeset) write(part Part, id string, value []byte) {
	c.Writes = append(c.Writes, Write{Part: part, ID: id, Value: value})
}

// setPool replaces a pool.
func (c *Changeset) setPool(p pools.Pool) {
	c.pools = append(c.pools, c.state.setPool(p))
	var value []byte
	if !p.Empty() {
		value, _ = json.Marshal(p) // cannot fail for these types
	}
	c.write(PoolPart, p.Name, value)
}

// SavedComment is a comment as it is stored.
type SavedComment struct {
	Comment
	Imported json.RawMessage `json:"brought,omitempty"` // the rest of an imported comment
}

// AddComment writes a comment and counts it in the record, which the caller saves.
func (c *Changeset) AddComment(r *Record, comment SavedComment) {
	value, _ := json.Marshal(comment) // cannot fail for text and a time
	c.Writes = append(c.Writes, Write{Part: CommentPart, ID: r.ID, N: r.Comments, Value: value})
	r.Comments++
}

// comment adds a comment, which is cut off if it is too long. A task with too many gets none.
func (c *Changeset) comment(r *Record, actor Actor, text string) {
	if text == "" || r.Comments >= MaxComments {
		return
	}
	if len(text) > MaxComment {
		text = strings.ToValidUTF8(text[:MaxComment-4], "") + " ..."
	}
	c.AddComment(r, SavedComment{
		Comment: Comment{By: actor.String(), Incarnation: actor.Incarnation, At: now(), Text: text},
	})
}
