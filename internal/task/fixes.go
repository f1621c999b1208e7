package task

import (
	"fmt"
	"strings"
)

// onlyPeople returns an ErrConflict if an agent sets what its own work is measured by: the check that proves a fix, or
// the mode of pipelines.
func onlyPeople(actor Actor, what, before string, after *string) error {
	if actor.Person() || after == nil || strings.TrimSpace(*after) == before {
		return nil
	}
	return fmt.Errorf("%w: only a person can set the %s", ErrConflict, what)
}

// What onlyPeople is about.
const (
	fixCheck     = "check of a fix"
	pipelineMode = "mode of a task"
)
