//go:build !linux

package usage

import "github.com/coppice-dev/coppice/internal/status"

// Meter measures nothing on this system.
type Meter struct{}

// Sample returns nothing.
func (m *Meter) Sample([]status.Node, status.Controller) map[string]Resources { return nil }
