package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/token"
)

// peopleOnly describes the operations that only people may use, by path.
var peopleOnly = map[string]string{
	"/v1/act":            "start, stop, restart, reset, suspend and resume agents",
	"/v1/answer":         "answer questions",
	"/v1/attach":         "attach to the terminals of agents",
	"/v1/beliefs":        "change the beliefs of any agent",
	"/v1/beliefs/import": "import beliefs",
	"/v1/down":           "stop the daemon",
	"/v1/drain":          "drain agents",
	"/v1/fire":           "fire triggers",
	"/v1/mail/archive":   "archive their mail",
	"/v1/mail/read":      "read their mail",
	"/v1/mail/send":      "send mail in their name",
	"/v1/order/act":      "run, enable and disable orders",
	"/v1/patrol":         "run a patrol",
	"/v1/reload":         "reload the configuration",
	"/v1/task/act":       "act on tasks in their name",
	"/v1/task/claim":     "claim tasks in their name",
	"/v1/task/comment":   "comment on tasks in their name",
	"/v1/task/edit":      "edit tasks in their name",
	"/v1/tasks":          "add tasks in their name",
	"/v1/tasks/import":   "import tasks",
}

// agentBase is the base path of the routes for agents.
const agentBase = "/v1/agent"

// onlyPeople returns the text that a route is not for agents.
func onlyPeople(rt *route) string {
	if do := peopleOnly[rt.path]; do != "" {
		return "only people can " + do
	}
	return "only people can use " + rt.path
}

// deny refuses a request of an agent, and names an alternative.
func (c *call) deny(rt *route, who token.Caller, pid int) error {
	request := rt.method + " " + rt.path
	c.access.Denied(who, pid, request)
	from := fmt.Sprintf("%s (incarnation %d, process %d)", who.Name(), who.Incarnation, pid)
	switch {
	case pid == 0:
		from = fmt.Sprintf("%s (incarnation %d)", who.Name(), who.Incarnation)
	case who.Incarnation == 0: // of another node, which does not know it
		from = fmt.Sprintf("%s (process %d)", who.Name(), pid)
	}
	return fmt.Errorf("%w: %s, and %s comes from %s; %s", ErrUnauthorized, onlyPeople(rt), request, from,
		c.alternative(rt))
}

// alternative returns what an agent can do instead of using a route that is refused to it.
func (c *call) alternative(rt *route) string {
	const ask = "an agent can ask a person with: coppice agent ask"
	below := strings.TrimPrefix(rt.path, "/v1/")
	isOwn := func(r *route) bool { return r.agent && r.path == agentBase+"/"+below }
	group, _, _ := strings.Cut(below, "/")
	switch {
	case rt.path == "/v1/act":
		return "an agent can restart itself with: coppice agent request-restart; for everything else " +
			"it can ask a person with: coppice agent ask"
	case rt.path == "/v1/beliefs":
		return "an agent can change its own with: coppice agent belief"
	case !slices.ContainsFunc(c.routes, isOwn):
		return ask
	}
	return "an agent has a command of its own: coppice agent " + strings.TrimSuffix(group, "s") + " --help"
}
