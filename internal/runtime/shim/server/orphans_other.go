//go:build !linux

package server

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func becomeReaper() error { return errors.ErrUnsupported }

func sweep(*proc.Reaper, *agentGroup) {}
