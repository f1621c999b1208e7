package proc

import (
	"fmt"
	"regexp"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Readiness is the Probe of an agent's condition; nil where it has none. on is
// where the agent speaks of itself, which only a condition to do so needs.
func Readiness(r spec.Ready, on *NotifySocket) (Probe, error) {
	switch {
	case r.Log != "":
		re, err := regexp.Compile(r.Log)
		if err != nil {
			return nil, fmt.Errorf("ready.log: %w", err)
		}
		return Log{Pattern: re}, nil
	case r.TCP != "":
		return TCP{Address: r.TCP}, nil
	case r.HTTP != "":
		return HTTP{URL: r.HTTP}, nil
	case len(r.Exec) > 0:
		return Exec{Argv: r.Exec}, nil
	case r.Notify:
		return Notify{On: on}, nil
	}
	return nil, nil
}
