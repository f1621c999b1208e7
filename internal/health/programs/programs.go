// Package programs tells whether programs still run in processes, on this machine and on other nodes of a fleet.
package programs

import (
	"slices"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Wanted are programs, one of which should run in a process or below it.
type Wanted struct {
	PID   int      `json:"pid"`
	Names []string `json:"names"`
}

// Here reports for processes of this machine whether one of their programs runs, by process. One that has ended, or
// whose programs cannot be read, is missing.
func Here(all []Wanted) (map[int]bool, error) {
	wanted := make(map[proc.Identity][]string)
	var ids []proc.Identity
	for _, w := range all {
		if id, err := proc.Identify(w.PID); err == nil {
			wanted[id] = w.Names
			ids = append(ids, id)
		}
	}
	running, err := proc.Programs(ids)
	if err != nil {
		return nil, err
	}
	runs := make(map[int]bool, len(running))
	for id, names := range running {
		runs[id.PID] = runsAny(names, wanted[id])
	}
	return runs, nil
}

// maxComm is the length to which the kernel cuts the name of a program, in bytes.
const maxComm = 15

func runsAny(running, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(running, name) || len(name) > maxComm && slices.Contains(running, name[:maxComm])
	})
}
