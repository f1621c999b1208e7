package member

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
)

// projectKey is the key of the record of the project that the fleet runs.
const projectKey = "cluster/project"

// fleetProject is that record.
type fleetProject struct {
	Name string `json:"name"` // of the root of the tree, with which the paths of all agents begin
	By   string `json:"by"`   // random
}

// CheckProject returns an error if the project of this machine, with its file, is another one than the fleet's. The
// first project that is checked is that of the fleet.
func CheckProject(ctx context.Context, db store.Store, project, file string) error {
	value, err := json.Marshal(fleetProject{project, rand.Text()})
	if err != nil {
		return err
	}
	r, _, err := record.Create(ctx, db, projectKey, value)
	if err != nil {
		return fmt.Errorf("reading which project the fleet runs: %w", err)
	}
	var fleet fleetProject
	if err := json.Unmarshal(r.Value, &fleet); err != nil {
		return fmt.Errorf("the record of the project of the fleet, %s in the store, is damaged: %w", projectKey, err)
	}
	if fleet.Name != project {
		return fmt.Errorf("the fleet runs project %.100q, and %s is project %.100q; if they are the same, give them "+
			"the same name: [project] name = %q", fleet.Name, file, project, fleet.Name)
	}
	return nil
}
