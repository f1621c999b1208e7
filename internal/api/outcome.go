package api

import (
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Claim is an outcome as an agent reported it. It may come from a later version, or be damaged:
// outcome.New checks the report.
type Claim struct {
	Incarnation uint64         `json:"incarnation"`
	Time        time.Time      `json:"time"`      // of the last revision
	Revisions   int            `json:"revisions"` // how often it was replaced since it was first made
	Report      outcome.Report `json:"report"`
}
