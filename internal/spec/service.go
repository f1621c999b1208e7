package spec

import (
	"strings"
	"time"
)

// MaxServices bounds the number of services.
const MaxServices = 100

// MaxServiceName bounds the name of a service, in bytes.
const MaxServiceName = 200

// Service is something outside of the project that tasks wait for while it is down.
type Service struct {
	Name     string        // unique, see SameService
	Check    []string      // the command; exit code 0 means that the service works
	Dir      string        // absolute
	Timeout  time.Duration // of the command; DefaultCheckLimit if the file has none
	Interval time.Duration // between two checks; DefaultCheckEvery if the file has none
}

// SameService reports whether two texts name the same service. Case, and space around them, do not count.
func SameService(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// FindService returns the service with a name, or nil.
func FindService(all []Service, name string) *Service {
	for i := range all {
		if SameService(all[i].Name, name) {
			return &all[i]
		}
	}
	return nil
}
