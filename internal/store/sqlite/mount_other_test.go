//go:build !linux

package sqlite

import "testing"

func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	t.Skip("mounts a file system on Linux only")
	return ""
}

func remount(*testing.T, string, bool) {}
