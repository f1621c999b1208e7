package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/peer"
)

// Path is the route that Serve answers.
const Path = "/v1/node/programs"

// Bounds of a request. More processes are asked for in several.
const (
	maxWanted = 1000
	maxBody   = 4 << 20 // bytes, of a request and of an answer
	timeout   = 5 * time.Second
)

// Serve answers which programs run on this machine. The caller lets only nodes of the fleet ask.
func Serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "expected POST", http.StatusMethodNotAllowed)
		return
	}
	var all []Wanted
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&all); err != nil {
		http.Error(w, "expected a list of processes: "+err.Error(), http.StatusBadRequest)
		return
	}
	if len(all) > maxWanted {
		http.Error(w, fmt.Sprintf("%d processes, expected at most %d", len(all), maxWanted), http.StatusBadRequest)
		return
	}
	runs, err := Here(all)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(runs) // the client may be gone
}

// There is Here for another node, which the transport reaches whatever host the URL of a request names.
func There(ctx context.Context, node http.RoundTripper, all []Wanted) (map[int]bool, error) {
	runs := make(map[int]bool, len(all))
	for some := range slices.Chunk(all, maxWanted) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		err := peer.Ask(ctx, node, Path, maxBody, some, &runs)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}
