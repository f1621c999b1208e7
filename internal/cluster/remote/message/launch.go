package message

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Launch is a runtime.Launch that is sent to a node. What has another number there is sent by its name.
type Launch struct {
	*wire.Launch
	Signal *Signal `json:"signal,omitempty"` // StopSignal
	User   *member `json:"user,omitempty"`
	Bundle []byte  `json:"bundle,omitempty"` // of the program
}

// member is a user as it is known to all machines: by the names, or by the numbers if there are none. Group is empty
// if it is the primary group of the user. Home and Shell are those on the machine that sends it, which may be in the
// environment.
type member struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	Home  string `json:"home,omitempty"`
	Shell string `json:"shell,omitempty"`
}

// NewLaunch converts a launch. The error wraps proc.ErrCommand, and names what cannot be sent.
func NewLaunch(l runtime.Launch) (*Launch, error) {
	w, err := pack(l)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrCommand, err)
	}
	return w, nil
}

func pack(l runtime.Launch) (*Launch, error) {
	for what, file := range map[string]string{"directory": l.Dir, "stdin": l.Stdin} {
		if file != "" && !filepath.IsAbs(file) {
			return nil, fmt.Errorf("%s %.200q is not absolute, so that it would be another one on each node", what,
				file)
		}
	}
	if l.Dir == "" {
		return nil, errors.New("a launch on another node needs a directory")
	}
	if !utf8.ValidString(l.Token) || !utf8.ValidString(l.Home) {
		return nil, fmt.Errorf("the token %.80q or the directory %.80q is not UTF-8", l.Token, l.Home)
	}
	w := &Launch{Signal: NewSignal(l.StopSignal)}
	if l.StopSignal == 0 {
		w.Signal = nil
	}
	if p := l.Program; p != nil {
		switch {
		case p.Trace != nil:
			return nil, fmt.Errorf("program %.200q has a trace, which is an open file of this machine; "+
				"expected none on another node", p.Key)
		case !utf8.ValidString(p.Key):
			return nil, fmt.Errorf("the key of a program is not UTF-8: %.80q", p.Key)
		}
		w.Bundle = p.Bundle
	}
	var err error
	if l.User != nil {
		if w.User, err = newMember(l.User); err != nil {
			return nil, err
		}
	}
	l.StopSignal, l.User = 0, nil
	w.Launch, err = wire.NewLaunch(l)
	return w, err
}

func newMember(a *account.Account) (*member, error) {
	if !utf8.ValidString(a.Name) || a.Name == "" {
		return nil, fmt.Errorf("user %.80q has no name that can be sent to another node", a.Name)
	}
	m := &member{Name: a.Name, Home: a.Home, Shell: a.Shell}
	if own, err := account.Find(a.Name, ""); err == nil && own.GID == a.GID {
		return m, nil
	}
	m.Group = strconv.FormatUint(uint64(a.GID), 10)
	if g, err := user.LookupGroupId(m.Group); err == nil {
		m.Group = g.Name
	}
	return m, nil
}

// move replaces what an environment has of a user on another machine by what the account has on this one.
func (m *member) move(env []string, here *account.Account) {
	for i, kv := range env {
		switch {
		case kv == "HOME="+m.Home:
			env[i] = "HOME=" + here.Home
		case kv == "SHELL="+m.Shell && here.Shell != "":
			env[i] = "SHELL=" + here.Shell
		}
	}
}

// Unpack is the reverse of NewLaunch, on the node. The error wraps proc.ErrCommand.
func (w *Launch) Unpack() (l runtime.Launch, err error) {
	if w == nil || w.Launch == nil {
		return l, fmt.Errorf("%w: the request has no launch", proc.ErrCommand)
	}
	l = w.Launch.Unpack()
	if l.StopSignal = w.Signal.Local(); l.StopSignal < 0 {
		return l, fmt.Errorf("%w: the node has no signal %.40q", proc.ErrCommand, w.Signal.Name)
	}
	if l.User = nil; w.User != nil {
		if l.User, err = account.Find(w.User.Name, w.User.Group); err != nil {
			return l, fmt.Errorf("%w: on the node %w", proc.ErrCommand, err)
		}
		w.User.move(l.Env, l.User)
	}
	if l.Program != nil {
		l.Program.Bundle = w.Bundle
	}
	return l, nil
}
