package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/mcp"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// acts returns the tools that act on the fleet. Those on messages and tasks are in other files.
func acts(o Options) []mcp.Tool {
	tools := []mcp.Tool{
		{
			Name:        "start",
			Description: "Start agents that are stopped or held back by a limit.",
			Hints:       changes(false, true), Run: actor(o, act(control.Start)),
		},
		{
			Name:        "stop",
			Description: "Stop agents until they are started by hand.",
			Hints:       changes(true, true), Run: actor(o, act(control.Stop)),
		},
		{
			Name:        "restart",
			Description: "Stop agents and start them again. It counts as no failure; their unfinished work is lost.",
			Hints:       changes(true, false), Run: actor(o, act(control.Restart)),
		},
		{
			Name:        "reset",
			Description: "Reset the failure counts of agents, and start those that a limit holds back.",
			Hints:       changes(false, true), Run: actor(o, act(control.Reset)),
		},
		{
			Name:        "suspend",
			Description: "Stop agents until they are resumed. The path . is the whole project.",
			Hints:       changes(true, true), Run: actor(o, act(control.Suspend)),
		},
		{
			Name:        "resume",
			Description: "Resume suspended or paused agents. The path . is the whole project.",
			Hints:       changes(false, true), Run: actor(o, act(control.Resume)),
		},
	}
	for i := range tools {
		tools[i].Properties, tools[i].Required = path, `"path"`
	}
	tools = append(tools, []mcp.Tool{
		{
			Name:        "drain",
			Description: "Ask agents to finish their work, then stop them until they are started by hand.",
			Properties:  path + `,"timeout":{"type":"string","description":"default 5m"},"reason":` + text,
			Required:    `"path"`, Hints: changes(true, true), Run: actor(o, beginDrain),
		},
		{
			Name:        "fire",
			Description: "Start a run of an agent with an Aidefile, as one of its triggers does.",
			Properties:  `"path":` + id + `,"task":{"type":"string","description":"what to do in this run"}`,
			Required:    `"path"`, Hints: changes(false, false), Run: actor(o, fire),
		},
		{
			Name:        "order_run",
			Description: "Run an order now, whatever its gates say.",
			Properties:  `"name":` + id, Required: `"name"`,
			Hints: changes(true, false), Run: actor(o, runOrder),
		},
	}...)
	return append(append(tools, messageActs(o)...), taskActs(o)...)
}

// act returns the handler of an action on nodes.
func act(action control.Action) func(context.Context, *api.Client, pathInput, request) (answer, error) {
	call := control.Act.Call
	if action == control.Restart {
		call = func(ctx context.Context, c *api.Client, req control.ActRequest) (control.Acted, error) {
			return once(ctx, c, control.Act, req)
		}
	}
	return func(ctx context.Context, c *api.Client, in pathInput, _ request) (answer, error) {
		if in.Path == "." && (action == control.Suspend || action == control.Resume) {
			in.Path = "/"
		}
		acted, err := call(ctx, c, control.ActRequest{Path: in.Path, Action: action})
		if err != nil {
			return nil, err
		}
		already, more := first(acted.Already, 0, "the tool agents lists them")
		note := ""
		if acted.Changed == 0 && len(already) == 0 {
			note = in.Path + " contains no agents"
		}
		return answer{
			{"action", action}, {"changed", acted.Changed}, {"already_so", already}, {"more", more}, {"note", note},
		}, nil
	}
}

type drainInput struct {
	Path    string `json:"path"`
	Timeout string `json:"timeout"`
	Reason  string `json:"reason"`
}

// drainWait bounds the wait for the end of a drain. Clients usually wait a minute for a tool.
const drainWait = 20 * time.Second

var errDraining = errors.New("the agents are not finished yet")

func beginDrain(ctx context.Context, c *api.Client, in drainInput, _ request) (answer, error) {
	req := drain.Request{Path: in.Path, Reason: in.Reason}
	if in.Timeout != "" {
		d, err := timespan.Parse(in.Timeout)
		if err != nil || d <= 0 || d > drain.MaxTimeout {
			return nil, fmt.Errorf("timeout is %.40q, expected how long the agents may take, such as 10m, at most %v",
				in.Timeout, drain.MaxTimeout)
		}
		req.Timeout = d.Seconds()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, drainWait, errDraining)
	defer cancel()
	_, err := once(ctx, c, drain.Begin, req)
	if errors.Is(err, errDraining) {
		return answer{{"drained", false}, {"note", "the agents are asked to finish, and are stopped when they " +
			"have, or when the time is over; the tool explain shows how far they are"}}, nil
	}
	return answer{{"drained", true}}, err
}

type fireInput struct {
	Path string `json:"path"`
	Task string `json:"task"`
}

func fire(ctx context.Context, c *api.Client, in fireInput, _ request) (answer, error) {
	if len(in.Task) > trigger.MaxTask {
		return nil, fmt.Errorf("the task has %d bytes, expected at most %d", len(in.Task), trigger.MaxTask)
	}
	fired, err := once(ctx, c, trigger.Fire, trigger.FireRequest{Path: in.Path, Task: in.Task})
	return answer{{"fired", in.Path}, {"waits", fired.Waits}}, err
}

type nameInput struct {
	Name string `json:"name"`
}

func runOrder(ctx context.Context, c *api.Client, in nameInput, r request) (answer, error) {
	done, err := once(ctx, c, dispatch.Act, dispatch.ActRequest{Name: in.Name, Action: dispatch.RunOrder, By: r.by})
	return answer{{"run", done.Run}, {"queued", done.Queued}}, err
}
