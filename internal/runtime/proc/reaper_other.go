//go:build !linux

package proc

// Collect has nothing to do here: there are no subreapers.
func (r *Reaper) Collect() {}

func (r *Reaper) collect() {}

// Childless cannot tell here.
func (r *Reaper) Childless() bool { return false }
