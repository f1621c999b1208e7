//go:build !linux

package server

import "errors"

func becomeReaper() error { return errors.ErrUnsupported }

func (run *incarnation) sweep() {}
