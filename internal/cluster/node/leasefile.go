package node

import (
	"encoding/json"
	"log/slog"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
)

// leases are those of a process, which a later one of this machine may resume.
type leases struct {
	Node       store.Fence `json:"node"`
	Controller store.Fence `json:"controller,omitzero"`
}

// leaseFile keeps them. Without it a process waits until the leases of an earlier one have expired.
type leaseFile struct{ path string }

const maxLeaseFile = 4 << 10 // bytes

func (f leaseFile) load() (l leases) {
	text, err := private.ReadFile(f.path, maxLeaseFile)
	if err != nil || json.Unmarshal(text, &l) != nil {
		return leases{}
	}
	return l
}

func (f leaseFile) save(l leases, logger *slog.Logger) {
	text, err := json.Marshal(l)
	if err == nil {
		err = private.Replace(f.path, text)
	}
	if err != nil {
		logger.Warn("the leases of this node are not on disk: a daemon that is started again waits for their end",
			"error", err)
	}
}
