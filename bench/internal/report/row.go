// Package report turns the rows that the bench programs print into tables
// with ratios, and holds them against the project's targets.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Row is the answer to one question, as a bench program prints it. The
// runner adds Rep, Load and Error.
type Row struct {
	Impl     string             `json:"impl"`
	Scenario string             `json:"scenario"`
	N        int                `json:"n"`
	Metrics  map[string]float64 `json:"metrics,omitempty"`
	Rep      int                `json:"rep"`
	Load     float64            `json:"load1"`           // of the machine, right before
	Error    string             `json:"error,omitempty"` // why there are no metrics
	Note     string             `json:"note,omitempty"`  // why there are not all metrics, though nothing has failed
}

// Parse reads the last line of a program's output.
func Parse(out []byte) (Row, error) {
	out = bytes.TrimSpace(out)
	line := out[bytes.LastIndexByte(out, '\n')+1:]
	var r Row
	if err := json.Unmarshal(line, &r); err != nil {
		return Row{}, fmt.Errorf("output %.200q: %w", line, err)
	}
	if len(r.Metrics) == 0 && r.Note == "" {
		return Row{}, fmt.Errorf("output %.200q: no metrics", line)
	}
	return r, nil
}
