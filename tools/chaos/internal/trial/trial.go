// Package trial has what all trials share: their options, and the daemon to which they happen.
package trial

import (
	"fmt"
	"time"
)

// Options are those of all trials; each has its own use for them.
type Options struct {
	Coppice          string
	Agents, Crashing int
	Program          int // agents of a Sage program
	PerShim          int
	Rounds, Runs     int
	Divided          int
	Seed             uint64
	Etcd             string        // the program of the server
	Namespaces       bool          // of the network, if the machine allows them
	Slack            time.Duration // added to the targets
	First            string        // the fault of the first round, which others follow in their order; random if empty
	Dir              string
	Say              func(format string, args ...any)
}

// Header returns the beginning of the file of a fleet. settings are further lines of [project].
func (o Options) Header(settings string) string {
	return fmt.Sprintf("[project]\nname = \"chaos\"\n%s\n[daemon]\nagents_per_shim = %d\n\n"+
		"[supervision]\nmax_restarts = \"unlimited\"\n", settings, o.PerShim)
}
