//go:build !linux

package pane

// dieWith needs Linux. Elsewhere the agent gets SIGHUP when its terminal goes.
func dieWith(int) error { return nil }
