package far

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

// version is that of the messages.
const version = 1

// Bounds of messages.
const (
	maxPolls   = 500       // calls in a request
	maxDrops   = 10_000    // calls in a request that are over
	maxRequest = 16 << 20  // bytes
	maxCall    = 256 << 10 // bytes of the description of a call
	maxReport  = 12 << 20  // bytes; of a longer report, nothing is known
	fullAnswer = 4 << 20   // bytes, after which the rest of the calls has to wait for the next request
	maxAnswer  = fullAnswer + maxReport + maxPolls<<10
)

// request asks for what is new of some calls.
type request struct {
	Version int      `json:"version"`
	Client  string   `json:"client"` // random: calls of different clients have nothing in common
	Polls   []poll   `json:"polls,omitempty"`
	Drop    []uint64 `json:"drop,omitempty"` // calls that are over
}

// poll asks for what is new of a call.
type poll struct {
	ID     uint64     `json:"id"`
	Call   *described `json:"call,omitempty"` // if the node may not know it
	Output output     `json:"output"`
	Shared bool       `json:"shared,omitempty"` // see session.Call
	Finish bool       `json:"finish,omitempty"` // the call has ended
	Have   uint64     `json:"have,omitempty"`   // the version of the report that the client has
}

// output is the part of what a call has reported on its output by which its files are found.
type output struct {
	CLI     agentcli.CLI `json:"cli,omitempty"`
	Session string       `json:"session,omitempty"`
	Origin  string       `json:"origin,omitempty"`
}

func outputOf(r agentcli.Report) output { return output{r.CLI, r.Session, r.Origin} }

func (o output) report() agentcli.Report {
	return agentcli.Report{CLI: o.CLI, Session: o.Session, Origin: o.Origin}
}

// described is a Call that is sent. Texts may be any bytes.
type described struct {
	CLI agentcli.CLI `json:"cli"`
	Env [][]byte     `json:"env,omitempty"`
	// Inherited are names that Call has.
	Inherited []string  `json:"inherited,omitempty"`
	Dir       []byte    `json:"dir,omitempty"`
	Home      []byte    `json:"home,omitempty"`
	Stdin     []byte    `json:"stdin,omitempty"`
	Began     time.Time `json:"began"`
	Session   string    `json:"session,omitempty"`
}

// describe returns what is sent of a call.
func describe(c Call) *described {
	d := &described{
		CLI: c.CLI, Dir: []byte(c.Dir), Home: []byte(c.Home), Stdin: []byte(c.Stdin), Began: c.Began,
		Session: c.Session, Inherited: c.Inherited,
	}
	for _, kv := range session.Variables(c.Env) {
		d.Env = append(d.Env, []byte(kv))
	}
	return d
}

// size returns about how many bytes it has in a request.
func (d *described) size() int {
	n := len(d.Dir) + len(d.Home) + len(d.Stdin) + len(d.Session)
	for _, kv := range d.Env {
		n += len(kv) + 4
	}
	for _, name := range d.Inherited {
		n += len(name) + 4
	}
	return n*4/3 + 200
}

// answer is the answer to a request. It has nothing of calls for which there was no time or no room.
type answer struct {
	Version int      `json:"version"`
	Polls   []polled `json:"polls,omitempty"`
}

// polled has what is new of a call.
type polled struct {
	ID         uint64          `json:"id"`
	Unknown    bool            `json:"unknown,omitempty"` // its description is needed
	Busy       bool            `json:"busy,omitempty"`    // its files are being read
	Have       uint64          `json:"have,omitempty"`    // the version of the report
	Report     json.RawMessage `json:"report,omitempty"`  // unless the client has it
	Told       Told            `json:"told"`
	EndsItself bool            `json:"ends_itself,omitempty"`
	Shared     bool            `json:"shared,omitempty"`
	Finished   bool            `json:"finished,omitempty"` // nothing follows
}

// encodeReport returns a report as JSON. Of one that cannot be sent, nothing is known.
func encodeReport(r agentcli.Report) json.RawMessage {
	text, err := json.Marshal(r)
	if err != nil || len(text) > maxReport {
		text, _ = json.Marshal(agentcli.Report{}) // of strings and numbers
	}
	return text
}

// parseReport reads a report that a node has sent.
func parseReport(text json.RawMessage) (r agentcli.Report, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return agentcli.Report{}, fmt.Errorf("the report of a call is damaged: %w", err)
	}
	for _, u := range r.Models {
		if min(u.Input, u.CacheRead, u.CacheWrite, u.Output) < 0 || u.Dollars < 0 {
			return agentcli.Report{}, errors.New("the report of a call has a usage below 0")
		}
	}
	if min(r.Turns, int64(r.Retried), int64(r.Calls), int64(r.Succeeded), int64(r.Working), int64(r.Denied)) < 0 {
		return agentcli.Report{}, errors.New("the report of a call has a count below 0")
	}
	return r, nil
}

// check returns an error for a request that cannot be answered.
func (r *request) check() error {
	switch {
	case r.Version != version:
		return fmt.Errorf("the controller speaks version %d, the node version %d; update the older one", r.Version,
			version)
	case r.Client == "" || len(r.Client) > 100:
		return fmt.Errorf("expected the ID of a client, not %.120q", r.Client)
	case len(r.Polls) > maxPolls || len(r.Drop) > maxDrops:
		return fmt.Errorf("%d calls and %d that are over; expected at most %d and %d", len(r.Polls), len(r.Drop),
			maxPolls, maxDrops)
	case slices.ContainsFunc(r.Polls, func(p poll) bool { return p.Call != nil && p.Call.size() > 2*maxCall }):
		return fmt.Errorf("the description of a call has more than %d bytes", maxCall)
	}
	return nil
}
