package status

import "github.com/coppice-dev/coppice/internal/api"

// What a Model answers with.
type (
	Node        = api.Node
	Explanation = api.Explanation
	Status      = api.Status
	Attention   = api.Attention
)

const degraded = api.Degraded
