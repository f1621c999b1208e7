package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error for a user who may not open the socket of a project names the owner.
func TestPermissionError(t *testing.T) {
	dir := t.TempDir()
	socket, me := filepath.Join(dir, "daemon.sock"), os.Geteuid()
	err := permissionError(socket, me+1234567, fs.ErrPermission)
	if !errors.Is(err, ErrUnauthorized) || !strings.HasPrefix(err.Error(), "this project belongs to user "+userName(me)+", not to user ") ||
		!strings.Contains(err.Error(), "; run coppice as "+userName(me)+", or") {
		t.Errorf("of another user: %v", err)
	}
	for _, err := range []error{permissionError(socket, me, fs.ErrPermission), permissionError("/no/such/daemon.sock", me, fs.ErrPermission)} {
		if !errors.Is(err, ErrUnauthorized) || err.Error() != "the daemon cannot be reached: permission denied" {
			t.Errorf("where the owner is not the cause: %v", err)
		}
	}
}
