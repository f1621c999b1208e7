//go:build !linux

package proc

// Collect has nothing to do here: there are no subreapers.
func (r *Reaper) Collect() {}
