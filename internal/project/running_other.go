//go:build !linux

package project

import "errors"

// Running fails: only Linux lists the open files of processes.
func Running() ([]Opened, error) {
	return nil, errors.New("running projects can be listed on Linux only")
}
