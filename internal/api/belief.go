package api

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/coppice-dev/coppice/internal/value"
)

// OwnBeliefs is what an agent can do with its beliefs.
type OwnBeliefs interface {
	// OwnBeliefs returns those that are named, or all, with their values. who
	// is told to the daemon's side; a client is one agent, and gives none.
	OwnBeliefs(ctx context.Context, who Caller, names []string) ([]Belief, error)
	// ChangeOwn changes all that the step says, or nothing, and returns when
	// it is durable.
	ChangeOwn(ctx context.Context, who Caller, step BeliefStep) error
}

// Beliefs is what people can do with the beliefs of agents, which need not run.
type Beliefs interface {
	// AllBeliefs lists the beliefs of the agents at and below a path. Large values are left out.
	AllBeliefs(ctx context.Context, path string) ([]AgentBeliefs, error)
	// Beliefs returns those of one agent that are named, or all, with their values.
	Beliefs(ctx context.Context, path string, names []string) ([]Belief, error)
	// RawBelief returns the records of a belief as they are kept.
	RawBelief(ctx context.Context, path, name string) (RawBelief, error)
	// ChangeBeliefs changes those of one agent, as ChangeOwn.
	ChangeBeliefs(ctx context.Context, change BeliefChange) error
	// ExportBeliefs returns what is kept of one agent and outlives it.
	ExportBeliefs(ctx context.Context, path string) (BeliefExport, error)
	// ImportBeliefs sets any number of beliefs of one agent, all of them or none.
	ImportBeliefs(ctx context.Context, beliefs BeliefImport) error
}

// Belief is a named value of an agent.
type Belief struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"` // declared; any if it is not
	Value       value.Value `json:"value,omitempty"`
	Size        int         `json:"size"` // bytes of the value
	Origin      string      `json:"origin"`
	Persistent  bool        `json:"persistent"`
	Declared    bool        `json:"declared"`
	Incarnation uint64      `json:"incarnation,omitempty"` // that wrote it; none if a person did
	Time        *time.Time  `json:"time,omitempty"`        // when it was written
	Problem     string      `json:"problem,omitempty"`     // why what is kept is not what holds
	Aside       bool        `json:"aside,omitempty"`       // an earlier record that could not be used is kept, too
}

// AgentBeliefs is the beliefs of one agent.
type AgentBeliefs struct {
	Path        string   `json:"path"`
	Known       bool     `json:"known"`                 // the file names it
	Incarnation uint64   `json:"incarnation,omitempty"` // that is open
	Count       int      `json:"count"`                 // records that are kept
	Bytes       int      `json:"bytes"`                 // of their names and values
	Beliefs     []Belief `json:"beliefs"`
}

// BeliefStep is what changes at once. It is the body of POST /v1/agent/beliefs.
type BeliefStep struct {
	Set    value.Named `json:"set,omitempty"`
	Delete []string    `json:"delete,omitempty"`
}

// BeliefChange is a BeliefStep of a person. It is the body of POST /v1/beliefs.
type BeliefChange struct {
	Path   string      `json:"path"`
	Set    value.Named `json:"set,omitempty"`
	Delete []string    `json:"delete,omitempty"`
	Clear  bool        `json:"clear,omitempty"` // remove all that is kept, instead
}

// RawBelief is the records of a belief, which may be anything; none if empty.
type RawBelief struct {
	Record []byte `json:"record,omitempty"` // base64
	Aside  []byte `json:"aside,omitempty"`  // that was replaced and could not be used
}

// BeliefExport is what is kept of an agent.
type BeliefExport struct {
	Beliefs    value.Named `json:"beliefs"`
	Unreadable []string    `json:"unreadable"` // names whose records cannot be read
}

// BeliefImport is what is to be kept of an agent beside what is. It is the body
// of POST /v1/beliefs/import.
type BeliefImport struct {
	Path    string      `json:"path"`
	Beliefs value.Named `json:"beliefs"`
}

// Bounds on bodies: more than what a step or all beliefs of an agent may have,
// so that it is their own limits that errors name.
const (
	maxStepBody   = 4 << 20
	maxImportBody = 40 << 20
)

func beliefRoutes() []route {
	path := param{name: "path", kind: "string"}
	thePath := param{name: "path", kind: "string", required: true}
	name := param{name: "name", kind: "string", repeated: true}
	theName := param{name: "name", kind: "string", required: true}
	return []route{
		{method: "GET", path: "/v1/agent/beliefs", agent: true, params: []param{name}, answer: []Belief{},
			serve: (*call).ownBeliefs},
		{method: "POST", path: "/v1/agent/beliefs", agent: true, body: BeliefStep{}, maxBody: maxStepBody,
			serve: (*call).changeOwn},
		{method: "GET", path: "/v1/beliefs", params: []param{path}, answer: []AgentBeliefs{},
			serve: (*call).allBeliefs},
		{method: "POST", path: "/v1/beliefs", body: BeliefChange{}, maxBody: maxStepBody, serve: (*call).changeBeliefs},
		{method: "GET", path: "/v1/beliefs/agent", params: []param{thePath, name}, answer: []Belief{},
			serve: (*call).beliefs},
		{method: "GET", path: "/v1/beliefs/raw", params: []param{thePath, theName}, answer: RawBelief{},
			serve: (*call).rawBelief},
		{method: "GET", path: "/v1/beliefs/export", params: []param{thePath}, answer: BeliefExport{},
			serve: (*call).exportBeliefs},
		{method: "POST", path: "/v1/beliefs/import", body: BeliefImport{}, maxBody: maxImportBody,
			serve: (*call).importBeliefs},
	}
}

func (c *call) ownBeliefs() error {
	list, err := c.service.OwnBeliefs(c.r.Context(), c.caller, c.query["name"])
	if err != nil {
		return err
	}
	return c.answer(orEmpty(list))
}

func (c *call) changeOwn() error {
	var step BeliefStep
	if err := c.body(&step); err != nil {
		return err
	}
	if err := c.service.ChangeOwn(c.r.Context(), c.caller, step); err != nil {
		return err
	}
	return c.done()
}

func (c *call) allBeliefs() error {
	list, err := c.service.AllBeliefs(c.r.Context(), c.query.text("path"))
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Beliefs = orEmpty(list[i].Beliefs)
	}
	return c.answer(orEmpty(list))
}

func (c *call) beliefs() error {
	list, err := c.service.Beliefs(c.r.Context(), c.query.text("path"), c.query["name"])
	if err != nil {
		return err
	}
	return c.answer(orEmpty(list))
}

func (c *call) rawBelief() error {
	raw, err := c.service.RawBelief(c.r.Context(), c.query.text("path"), c.query.text("name"))
	if err != nil {
		return err
	}
	return c.answer(raw)
}

func (c *call) changeBeliefs() error {
	var change BeliefChange
	if err := c.body(&change); err != nil {
		return err
	}
	switch {
	case change.Path == "":
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	case change.Clear && len(change.Set)+len(change.Delete) > 0:
		return fmt.Errorf("%w: clear stands beside set or delete", ErrInvalid)
	}
	if err := c.service.ChangeBeliefs(c.r.Context(), change); err != nil {
		return err
	}
	return c.done()
}

func (c *call) exportBeliefs() error {
	e, err := c.service.ExportBeliefs(c.r.Context(), c.query.text("path"))
	if err != nil {
		return err
	}
	if e.Beliefs == nil {
		e.Beliefs = value.Named{}
	}
	e.Unreadable = orEmpty(e.Unreadable)
	return c.answer(e)
}

func (c *call) importBeliefs() error {
	var all BeliefImport
	if err := c.body(&all); err != nil {
		return err
	}
	if all.Path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	if err := c.service.ImportBeliefs(c.r.Context(), all); err != nil {
		return err
	}
	return c.done()
}

// OwnBeliefs implements OwnBeliefs.
func (c *Client) OwnBeliefs(ctx context.Context, _ Caller, names []string) (list []Belief, err error) {
	return list, c.call(ctx, "GET", "/agent/beliefs", url.Values{"name": names}, nil, &list)
}

// ChangeOwn implements OwnBeliefs.
func (c *Client) ChangeOwn(ctx context.Context, _ Caller, step BeliefStep) error {
	return c.call(ctx, "POST", "/agent/beliefs", nil, step, nil)
}

// AllBeliefs implements Beliefs.
func (c *Client) AllBeliefs(ctx context.Context, path string) (list []AgentBeliefs, err error) {
	return list, c.call(ctx, "GET", "/beliefs", withPath(path), nil, &list)
}

// Beliefs implements Beliefs.
func (c *Client) Beliefs(ctx context.Context, path string, names []string) (list []Belief, err error) {
	q := withPath(path)
	q["name"] = names
	return list, c.call(ctx, "GET", "/beliefs/agent", q, nil, &list)
}

// RawBelief implements Beliefs.
func (c *Client) RawBelief(ctx context.Context, path, name string) (raw RawBelief, err error) {
	q := withPath(path)
	q.Set("name", name)
	return raw, c.call(ctx, "GET", "/beliefs/raw", q, nil, &raw)
}

// ChangeBeliefs implements Beliefs.
func (c *Client) ChangeBeliefs(ctx context.Context, change BeliefChange) error {
	return c.call(ctx, "POST", "/beliefs", nil, change, nil)
}

// ExportBeliefs implements Beliefs.
func (c *Client) ExportBeliefs(ctx context.Context, path string) (e BeliefExport, err error) {
	return e, c.call(ctx, "GET", "/beliefs/export", withPath(path), nil, &e)
}

// ImportBeliefs implements Beliefs.
func (c *Client) ImportBeliefs(ctx context.Context, all BeliefImport) error {
	return c.call(ctx, "POST", "/beliefs/import", nil, all, nil)
}
