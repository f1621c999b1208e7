package account

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the capabilities for running an agent as another user: to switch to the user, to hand
// over its terminal and socket, to stop it, and to find its orphaned processes.
var needed = []struct {
	bit  int
	name string
}{
	{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_CHOWN, "CAP_CHOWN"},
	{unix.CAP_KILL, "CAP_KILL"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
}

// hasACL reports whether a file has an access control list (acl(5)).
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// May returns nil if this process may run agents as other users, and otherwise the reason.
func May() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	return may(os.Geteuid(), string(status))
}

func may(uid int, status string) error {
	if uid != 0 {
		return fmt.Errorf("coppice runs as user %d, and only root may do that", uid)
	}
	_, rest, _ := strings.Cut(status, "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	caps, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return errors.New("/proc/self/status does not say which capabilities coppice has")
	}
	var missing []string
	for _, c := range needed {
		if caps>>c.bit&1 == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("coppice runs as root without %s", strings.Join(missing, ", "))
	}
	return nil
}
