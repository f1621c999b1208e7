package node

import (
	"encoding/json"
	"log/slog"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
)

// fences are those of the leases of a process, which a later one of this machine may resume.
type fences struct {
	Node       store.Fence `json:"node"`
	Controller store.Fence `json:"controller,omitzero"`
}

// leaseFile keeps them. Without it a process waits until the leases of an earlier one have expired.
type leaseFile struct{ path string }

// savedLeases is the content of the file. A copy of it in another place, on another machine or after a restart of this
// one must not be used: there may be two processes then.
type savedLeases struct {
	fences
	Boot string `json:"boot"`
	Path string `json:"path"` // of the file
}

const maxLeaseFile = 8 << 10 // bytes

func (f leaseFile) load() fences {
	var saved savedLeases
	text, err := private.ReadFile(f.path, maxLeaseFile)
	if err != nil || json.Unmarshal(text, &saved) != nil {
		return fences{}
	}
	boot, err := deadline.BootID()
	if err != nil || saved.Boot != boot || saved.Path != f.path {
		return fences{}
	}
	return saved.fences
}

func (f leaseFile) save(l fences, logger *slog.Logger) {
	boot, err := deadline.BootID()
	var text []byte
	if err == nil {
		text, err = json.Marshal(savedLeases{l, boot, f.path})
	}
	if err == nil {
		err = private.Replace(f.path, text)
	}
	if err != nil {
		logger.Warn("the leases of this node are not on disk: a daemon that is started again waits for their end",
			"error", err)
	}
}
