package api

import (
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Claim is an outcome as an agent has claimed it. It may be from a later
// version, or damaged: outcome.New says whether the report is whole.
type Claim struct {
	Incarnation uint64         `json:"incarnation"`
	Time        time.Time      `json:"time"`      // of the last revision
	Revisions   int            `json:"revisions"` // how often it was replaced since it was first made
	Report      outcome.Report `json:"report"`
}
