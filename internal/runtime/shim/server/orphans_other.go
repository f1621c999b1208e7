//go:build !linux

package server

import "errors"

func becomeReaper() error { return errors.ErrUnsupported }

func (s *slot) sweep(*agentGroup) {}
