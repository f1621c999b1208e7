package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// identity is whom an agent and its commands run as, and where they reach the daemon.
type identity struct {
	user   *account.Account // nil: that of the daemon
	socket string
}

// identity finds the user of an agent, and lets that user reach the controller.
func (c *Controller) identity(a *spec.Agent) (identity, error) {
	as, err := identityOf(a, c.opts.Socket)
	if err != nil || as.user == nil || c.opts.Socket == "" || c.opts.Admit == nil {
		return as, err
	}
	if _, err := c.opts.Admit(as.user.UID); err != nil {
		return as, fmt.Errorf("make a socket for user %s: %w", as.user.Name, err)
	}
	return as, nil
}

// identityOf finds the user of an agent of the daemon with a socket.
func identityOf(a *spec.Agent, socket string) (identity, error) {
	if a.User == "" {
		return identity{socket: socket}, nil
	}
	user, err := account.Find(a.User, a.Group)
	if err != nil {
		return identity{}, err
	}
	if socket != "" {
		socket = api.GuestSocketPath(socket, user.UID)
	}
	return identity{user, socket}, nil
}

// environ is the environment of an agent, or of a command that belongs to it. With a user of its
// own, the agent has the variables of that user where it declares no others. The error says
// that its files of the environment cannot be read, and that it is without them.
func (i identity) environ(a *spec.Agent, self proc.Self) ([]string, error) {
	self.Socket = i.socket
	own, err := environOf(a)
	if i.user == nil {
		return proc.Environ(own, self), err
	}
	declared := i.user.Environ()
	maps.Copy(declared, own)
	env := proc.Environ(declared, self)
	kept := env[:0]
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, stated := declared[name]; stated ||
			!slices.Contains([]string{"SHELL", "TMPDIR", "XDG_RUNTIME_DIR"}, name) {
			kept = append(kept, kv)
		}
	}
	return kept, err
}
