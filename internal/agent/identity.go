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

// Env is the environment of an incarnation, or of a command of an agent.
type Env struct {
	Vars []string // complete
	// Inherited are the names of variables of which another node of a fleet has its own: see proc.Move. Without a fleet
	// there are none.
	Inherited []string
}

// with returns the environment with other variables, which were made of it. Those with another value than before are no
// longer inherited.
func (e Env) with(vars []string) Env {
	inherited := slices.DeleteFunc(slices.Clone(e.Inherited), func(name string) bool {
		return valueOf(vars, name) != valueOf(e.Vars, name)
	})
	return Env{vars, inherited}
}

// valueOf returns the last entry of a variable; empty if there is none.
func valueOf(vars []string, name string) (last string) {
	for _, kv := range vars {
		if strings.HasPrefix(kv, name+"=") {
			last = kv
		}
	}
	return last
}

// Environ returns the environment of an agent, or of a command that belongs to it. With a user of its
// own, the agent has the variables of that user where it declares no others. If its environment files
// cannot be read, the environment is without them, and the error says so.
func (i Identity) Environ(a *spec.Agent, self proc.Self) (Env, error) {
	self.Socket = i.Socket
	declared, err := readEnviron(a)
	kept := func(string) bool { return true }
	if i.User != nil {
		own := declared
		declared = i.User.Environ()
		maps.Copy(declared, own)
		kept = func(name string) bool {
			_, stated := declared[name]
			return stated || !slices.Contains([]string{"SHELL", "TMPDIR", "XDG_RUNTIME_DIR"}, name)
		}
	}
	env := Env{Vars: slices.DeleteFunc(proc.Environ(declared, self), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !kept(name)
	})}
	if a.Home != "" { // in a fleet
		env.Inherited = slices.DeleteFunc(proc.Inherited(declared), func(name string) bool { return !kept(name) })
	}
	return env, err
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
