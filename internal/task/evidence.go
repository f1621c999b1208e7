package task

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// checkCriterion returns an ErrConflict if an agent changes the criterion that its own work is measured by. It may add
// one.
func checkCriterion(actor Actor, before *Record, doneWhen *string) error {
	if actor.Person() || doneWhen == nil || before.DoneWhen == "" || strings.TrimSpace(*doneWhen) == before.DoneWhen {
		return nil
	}
	return fmt.Errorf("%w: only a person can change when %s is done", ErrConflict, before.ID)
}

// requireEvidence returns an ErrConflict if an agent completes a task that has a criterion, and shows nothing for it.
// People may close any task.
func requireEvidence(actor Actor, r *Record, e *outcome.Evidence) error {
	if actor.Person() || r.DoneWhen == "" || !e.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %s is completed with evidence, since it is done when: %s; show how that is met, with: "+
		"coppice agent outcome completed --task %[2]s --evidence TEXT, and --commit, --branch or --pull-request",
		ErrConflict, r.ID, r.DoneWhen)
}
