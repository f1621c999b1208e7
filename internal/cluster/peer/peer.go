// Package peer asks other nodes of a fleet, over routes that these answer in JSON.
package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Ask posts a question to a node, and decodes the answer, of at most limit bytes. The transport reaches the node,
// whichever host the URL of a request names.
func Ask(ctx context.Context, node http.RoundTripper, path string, limit int, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := node.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers with %s: %.200q", resp.Status, strings.TrimSpace(string(text)))
	case len(text) > limit:
		return fmt.Errorf("the answer has more than %d bytes", limit)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is damaged: %w", err)
	}
	return nil
}
