package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Identity is the user that an agent and its commands run as, and the socket by which they reach the
// daemon.
type Identity struct {
	User   *account.Account // nil: that of the daemon
	Socket string
}

// IdentityOf returns the identity of an agent of the daemon with a socket.
func IdentityOf(a *spec.Agent, socket string) (Identity, error) {
	if a.User == "" {
		return Identity{Socket: socket}, nil
	}
	user, err := account.Find(a.User, a.Group)
	if err != nil {
		return Identity{}, err
	}
	if socket != "" {
		socket = endpoint.GuestPath(socket, user.UID)
	}
	return Identity{user, socket}, nil
}

// Identity returns the identity of an agent, and lets its user reach the daemon.
func (m *Manager) Identity(a *spec.Agent) (Identity, error) {
	as, err := IdentityOf(a, m.Socket)
	if err != nil || as.User == nil || m.Socket == "" || m.Admit == nil {
		return as, err
	}
	if _, err := m.Admit(as.User.UID); err != nil {
		return as, fmt.Errorf("make a socket for user %s: %w", as.User.Name, err)
	}
	return as, nil
}

// Environ returns the environment of an agent, or of a command that belongs to it. With a user of its
// own, the agent has the variables of that user where it declares no others. If its environment files
// cannot be read, the environment is without them, and the error says so.
func (i Identity) Environ(a *spec.Agent, self proc.Self) ([]string, error) {
	self.Socket = i.Socket
	own, err := readEnviron(a)
	if i.User == nil {
		return proc.Environ(own, self), err
	}
	declared := i.User.Environ()
	maps.Copy(declared, own)
	env := proc.Environ(declared, self)
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, stated := declared[name]
		return !stated && isPersonal(name)
	}), err
}

// isPersonal reports whether a variable of this user is not for others.
func isPersonal(name string) bool {
	return slices.Contains([]string{"SHELL", "TMPDIR", "XDG_RUNTIME_DIR"}, name)
}

// inherited returns the names of the variables that Environ inherits, in a fleet of several machines.
func (i Identity) inherited(a *spec.Agent) []string {
	if a.Home == "" {
		return nil
	}
	declared := make(map[string]string)
	if i.User != nil {
		declared = i.User.Environ()
	}
	own, _ := readEnviron(a)
	maps.Copy(declared, own)
	names := proc.Inherited(declared)
	if i.User == nil {
		return names
	}
	return slices.DeleteFunc(names, isPersonal)
}

// readEnviron returns the environment that an agent declares, with what is in its files now.
func readEnviron(a *spec.Agent) (map[string]string, error) {
	if len(a.EnvFiles) == 0 {
		return a.Env, nil
	}
	env := make(map[string]string)
	for _, file := range a.EnvFiles {
		more, err := envfile.Read(file)
		if err != nil {
			return a.Env, fmt.Errorf("env_file: %w", err)
		}
		maps.Copy(env, more)
	}
	maps.Copy(env, a.Env)
	return env, nil
}
