package wire

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Launch is a runtime.Launch that is sent to a shim. Arguments, environment and file names are
// bytes that need not be UTF-8, unlike JSON strings.
type Launch struct {
	runtime.Launch
	Argv, Env  []byte // separated by NUL
	Dir, Stdin []byte
}

// NewLaunch converts a launch. It fails if a value cannot be sent unchanged.
func NewLaunch(l runtime.Launch) (*Launch, error) {
	for what, list := range map[string][]string{"argument": l.Argv, "environment entry": l.Env, "directory": {l.Dir},
		"stdin": {l.Stdin}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, fmt.Errorf("%s contains a NUL byte: %.80q", what, s)
			}
		}
	}
	if l.Paths != nil {
		for _, s := range slices.Concat(l.Paths.ReadWrite, l.Paths.ReadOnly) {
			if !utf8.ValidString(s) {
				return nil, fmt.Errorf("path in read_write_paths or read_only_paths is not UTF-8: %.80q", s)
			}
		}
	}
	for _, s := range append([]string{l.Ready.Log, l.Ready.TCP, l.Ready.HTTP, l.SpecHash}, l.Ready.Exec...) {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("readiness condition or hash of the specification is not UTF-8: %.80q", s)
		}
	}
	w := &Launch{Launch: l, Argv: join(l.Argv), Env: join(l.Env), Dir: []byte(l.Dir), Stdin: []byte(l.Stdin)}
	w.Launch.Argv, w.Launch.Env = nil, nil
	return w, nil
}

// Unpack is the reverse of NewLaunch.
func (w *Launch) Unpack() runtime.Launch {
	l := w.Launch
	l.Argv, l.Env = split(w.Argv), split(w.Env)
	l.Dir, l.Stdin = string(w.Dir), string(w.Stdin)
	return l
}

// Again returns the launch of another incarnation of the same agent. Its number, its token and
// the variables with them differ.
func Again(l runtime.Launch, incarnation uint64, token string) runtime.Launch {
	l.Incarnation, l.Token, l.Env = incarnation, token, proc.WithIncarnation(l.Env, incarnation, token)
	return l
}

func join(list []string) []byte {
	var b []byte
	for _, s := range list {
		b = append(append(b, s...), 0)
	}
	return b
}

func split(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}
