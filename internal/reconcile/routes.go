package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Reload reads the file now, instead of when its change is noticed, and returns when what differs is
// done. ErrConflict: it is refused, and the last one stays in force.
var Reload = api.Route[api.None, Reloaded]{
	Method: "POST", Path: "/reload", For: api.People,
	ID: "reload", Summary: "Read the file now",
	Doc: "A change of the file is noticed without that. The answer comes when what differs has been stopped, started " +
		"or changed. A file that is refused is a conflict, and the last one stays in force.",
	Returns: "How it differs from the one that was in force.",
}

// Reloaded lists the differences between a file and the one before it.
type Reloaded struct {
	_        struct{} `open:"true" doc:"How the file differs from the one that was in force."`
	Revision string   `json:"revision" doc:"Of the one that is in force now."`
	Changed  bool     `json:"changed" doc:"Whether that is another one."`
	Added    int      `json:"added" doc:"How many agents and supervisors are new."`
	Removed  int      `json:"removed" doc:"How many are gone."`
	Renewed  int      `json:"renewed" doc:"How many agents were restarted."`
	Later    int      `json:"later" doc:"How many agents restart when they have finished their work, or when their limit has room."`
	Amended  int      `json:"amended" doc:"How many agents have changed without that."`
}

func (r Reloaded) String() string {
	if !r.Changed {
		return fmt.Sprintf("revision %.12s, nothing has changed", r.Revision)
	}
	parts := []string{fmt.Sprintf("revision %.12s", r.Revision)}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Added, "added"}, {r.Removed, "removed"}, {r.Renewed, "restarted"}, {r.Later, "to be restarted later"},
		{r.Amended, "changed in place"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 1 {
		parts = append(parts, "no agent differs")
	}
	return strings.Join(parts, ", ")
}

// Register has a server answer requests to reload.
func (r *Reloader) Register(s *api.Server) {
	Reload.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) (Reloaded, error) { return r.Reload(ctx) })
}
