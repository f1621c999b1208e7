// Package landlock limits where processes may write. Linux enforces the limits with Landlock, see
// landlock(7): they hold for a process and for everything that it starts, and cannot be removed.
//
// Reading and executing are not limited. Neither are the changes that Landlock does not know:
// permissions, owners, times and extended attributes of files.
package landlock

import (
	"errors"
	"fmt"
	"strings"
)

// Paths are the places where a process may write. Everything else is read-only for it, except for
// /dev/null, /dev/zero, /dev/full, /dev/random, /dev/urandom and terminals.
//
// Paths are absolute. A path must exist unless it begins with "-", as in systemd.exec(5).
type Paths struct {
	// ReadWrite are directories, with everything below them, and files.
	ReadWrite []string
	// ReadOnly are exceptions below ReadWrite. Landlock cannot take a right back below a
	// directory. So each entry of a directory that contains an exception is writable by itself:
	// the directory gets no new entries, and none is removed or renamed. One that does not exist
	// cannot be created either. A ReadWrite path below an exception is writable.
	ReadOnly []string
	// OwnSignals keeps the process from signalling processes outside of those that it starts, such
	// as the one that watches it. It has an effect as of ScopesABI.
	OwnSignals bool
}

// New returns Paths, or nil, which means no limit, if readWrite is nil.
func New(readWrite, readOnly []string) *Paths {
	if readWrite == nil {
		return nil
	}
	return &Paths{ReadWrite: readWrite, ReadOnly: readOnly}
}

// WithOwnSignals returns the same paths with OwnSignals.
func (p *Paths) WithOwnSignals(set bool) *Paths {
	if p == nil {
		return nil
	}
	return &Paths{p.ReadWrite, p.ReadOnly, set}
}

// Versions of the interface of Landlock.
const (
	// MinABI is the oldest version that is used, that of Linux 6.2. Earlier ones do not limit
	// truncate(2).
	MinABI = 3
	// DevicesABI also limits ioctl(2) on devices. Linux 6.10.
	DevicesABI = 5
	// ScopesABI also keeps processes from connecting to abstract unix sockets of processes
	// outside, and from signalling these. Linux 6.12.
	ScopesABI = 6
)

// ErrUnsupported means that the kernel cannot enforce Paths.
var ErrUnsupported = errors.New("write limits need Landlock as of Linux 6.2")

// Supported returns nil if the kernel can enforce Paths. Otherwise the error wraps ErrUnsupported
// and says what is missing.
func Supported() error { return supports(ABI()) }

func supports(abi int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	case abi < MinABI:
		return fmt.Errorf("%w: the kernel has version %d of its interface, expected at least %d", ErrUnsupported, abi,
			MinABI)
	}
	return nil
}

// Optional returns a path without its prefix "-", and whether it had that.
func Optional(path string) (string, bool) { return strings.CutPrefix(path, "-") }

// Check reports paths that are missing or cannot be used. The kernel is not asked.
func (p *Paths) Check() error {
	_, err := p.resolve()
	return err
}
