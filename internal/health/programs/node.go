package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
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
		if err := ask(ctx, node, some, runs); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// ask adds what a node answers to runs.
func ask(ctx context.Context, node http.RoundTripper, all []Wanted, runs map[int]bool) error {
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node"+Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := node.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers with %s: %.200q", resp.Status, strings.TrimSpace(string(text)))
	case len(text) > maxBody:
		return fmt.Errorf("the answer has more than %d bytes", maxBody)
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return fmt.Errorf("the answer is damaged: %w", err)
	}
	return nil
}
