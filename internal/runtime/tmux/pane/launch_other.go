//go:build !linux

package pane

const rlimitProcesses = 7 // RLIMIT_NPROC of the BSDs

// dieWith needs Linux. Elsewhere the agent gets SIGHUP when its terminal goes.
func dieWith(int) error { return nil }
