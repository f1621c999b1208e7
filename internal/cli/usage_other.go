//go:build !linux

package cli

import "github.com/coppice-dev/coppice/internal/status"

// meter measures nothing here.
type meter struct{}

func (m *meter) sample([]status.Node, status.Controller) map[string]resources { return nil }
