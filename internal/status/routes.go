package status

import (
	"context"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// The routes of the model.
var (
	// Get returns the daemon and its fleet in short.
	Get = api.Route[api.None, Status]{
		Method: "GET", Path: "/status", For: api.People,
		ID: "status", Summary: "The daemon and its fleet in short",
		Returns: "How it is.",
	}
	// List returns a node and what is below it.
	List = api.Route[ListRequest, []Node]{
		Method: "GET", Path: "/nodes", For: api.People,
		ID: "nodes", Summary: "The tree, parents first, siblings in start order",
		Returns: "The nodes.",
	}
	// Explain says why a node is as it is.
	Explain = api.Route[ExplainRequest, Explanation]{
		Method: "GET", Path: "/explain", For: api.People,
		ID: "explain", Summary: "Why a node is as it is",
		Returns: "Why.",
	}
)

// ListRequest selects the nodes to list.
type ListRequest struct {
	Path string `json:"path,omitempty" doc:"List this node and what is below it; everything if it is not given. The first segment, the project, may be left out."`
}

// ExplainRequest selects the node to explain.
type ExplainRequest struct {
	Path string `json:"path" doc:"The node."`
}

// Register has a server answer requests about the fleet, with a daemon and without one.
func (m *Model) Register(s *api.Server) {
	Get.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) (Status, error) { return m.Status(ctx) })
	List.Handle(s, func(ctx context.Context, _ token.Caller, r ListRequest) ([]Node, error) {
		return m.Nodes(ctx, r.Path)
	})
	Explain.Handle(s, func(ctx context.Context, _ token.Caller, r ExplainRequest) (Explanation, error) {
		return m.Explain(ctx, r.Path)
	})
}
