//go:build !linux

package project

import "errors"

// Running fails: only Linux tells which files the processes of a user have open.
func Running() ([]Opened, error) {
	return nil, errors.New("running projects can be listed on Linux only")
}
