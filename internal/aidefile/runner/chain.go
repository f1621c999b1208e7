package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// spentName is the file, beside the request, of what a chain has used.
const spentName = "spent.json"

// chain is what the runs of a chain have used together. It is in a file, as each run is a process of its own
// and the daemon may end between two of them.
type chain struct {
	Began  time.Time `json:"began"`
	Tokens int64     `json:"tokens"`
}

// recall reads what the runs before this one have used.
func (r *Runner) recall() {
	var c chain
	text, err := os.ReadFile(filepath.Join(r.dir, spentName))
	if err == nil && json.Unmarshal(text, &c) == nil && c.Began.Equal(r.request.Chain) {
		r.spent = max(0, c.Tokens)
	}
	r.settled = r.spent
}

// chained is what the chain has used by now.
func (r *Runner) chained() int64 { return agentcli.Add(r.spent, r.meter.Used()) }

// settle notes what the chain has used, with what a call has used that has not ended.
func (r *Runner) settle(call int64) {
	now := agentcli.Add(r.chained(), call)
	if now == r.settled {
		return
	}
	r.settled = now
	r.note(chain{r.request.Chain, now})
}

// forget ends the chain: what follows a success begins anew.
func (r *Runner) forget() {
	if r.chained() > 0 {
		r.note(chain{r.request.Chain, 0})
	}
}

func (r *Runner) note(c chain) {
	text, err := json.Marshal(c)
	if err == nil {
		err = replace(filepath.Join(r.dir, spentName), text)
	}
	if err != nil {
		r.say("what the chain of runs has used cannot be noted: %v", err)
	}
}

// over reports whether the chain has nothing left for another run, and says so.
func (r *Runner) over() (reason string, ok bool) {
	if r.file == nil {
		return "", false
	}
	_, err := r.file.Budget.Within(r.chained())
	if err == nil {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), "budget exhausted: "), true
}
