package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// spentName is the file next to the request with the tokens that a chain has used.
const spentName = "spent.json"

// chain counts the tokens that all runs of a chain have used. It is stored in a file, as
// each run is a process of its own and the daemon may exit between two of them.
type chain struct {
	Began  time.Time `json:"began"`
	Tokens int64     `json:"tokens"`
}

// loadSpent reads the tokens that the runs before this one have used.
func (r *Runner) loadSpent() {
	var c chain
	text, err := os.ReadFile(filepath.Join(r.dir, spentName))
	if err == nil && json.Unmarshal(text, &c) == nil && c.Began.Equal(r.request.Chain) {
		r.spent = max(0, c.Tokens)
	}
	r.saved = r.spent
}

// chainUsed returns the tokens that the chain has used so far.
func (r *Runner) chainUsed() int64 { return agentcli.Add(r.spent, r.meter.Used()) }

// saveSpent stores the tokens that the chain has used, with those of a call in progress.
func (r *Runner) saveSpent(call int64) {
	now := agentcli.Add(r.chainUsed(), call)
	if now == r.saved {
		return
	}
	r.saved = now
	r.writeChain(chain{r.request.Chain, now})
}

// endChain resets the count: the run that follows a success begins a new chain.
func (r *Runner) endChain() {
	if r.chainUsed() > 0 {
		r.writeChain(chain{r.request.Chain, 0})
	}
}

func (r *Runner) writeChain(c chain) {
	text, err := json.Marshal(c)
	if err == nil {
		err = replace(filepath.Join(r.dir, spentName), text)
	}
	if err != nil {
		r.say("cannot store the tokens that the chain of runs has used: %v", err)
	}
}

// chainSpent reports whether the chain has no tokens left for another run, and why.
func (r *Runner) chainSpent() (reason string, ok bool) {
	if r.file == nil {
		return "", false
	}
	_, err := r.file.Budget.Within(r.chainUsed())
	if err == nil {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), "budget exhausted: "), true
}
