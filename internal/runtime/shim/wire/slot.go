package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Files of a slot, in its directory.
const (
	LockFile   = "lock"      // State of the last incarnation; locked by the shim while it serves the slot
	SocketFile = "socket"    // a link to that of the shim
	ExitFile   = "exit.json" // Record of the last incarnation that has ended
)

// ShimLog is the file with the errors of shims, in the directory of the slots.
const ShimLog = "shim.log"

// MarkerEnv is in the environment of everything that runs in a slot. Its value is the Marker of
// the slot.
const MarkerEnv = "COPPICE_SLOT"

// MaxPath bounds the path of an agent, in bytes.
const MaxPath = 4 << 10

// maxFile bounds the files of a slot that are read completely.
const maxFile = 4 << 20

// DirName returns the name of a slot's directory. The path cannot choose it, but people can
// recognize it.
func DirName(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("agent without a path")
	case len(path) > MaxPath:
		return "", fmt.Errorf("path of an agent has %d bytes, at most %d are allowed: %.40q…", len(path), MaxPath,
			path)
	case !utf8.ValidString(path):
		return "", fmt.Errorf("path of an agent is not UTF-8: %.80q", path)
	}
	sum := sha256.Sum256([]byte(path))
	last := path[strings.LastIndexByte(path, '/')+1:]
	var readable strings.Builder
	for i := 0; i < len(last) && readable.Len() < 24; i++ {
		c := last[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			readable.WriteByte(c)
		}
	}
	return strings.TrimSuffix(hex.EncodeToString(sum[:8])+"-"+readable.String(), "-"), nil
}

// Marker distinguishes the processes of a slot from those of all other slots of the machine.
func Marker(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:12])
}

// Mark is the mark of the processes in the slot with this directory name.
func Mark(name string) proc.Mark {
	sum := sha256.Sum256([]byte(name))
	return proc.MarkOf(binary.BigEndian.Uint64(sum[:8]))
}

// HasMarker reports whether the environment of a process says that it belongs to the slot in a
// directory.
func HasMarker(pid int, dir string) bool {
	return proc.EnvironmentOf(pid)[MarkerEnv] == Marker(dir)
}

// ShimArgs begins the command line of a shim, as the kernel has it.
const ShimArgs = "coppice\x00shim\x00run\x00"

// SocketName is the name of the socket of a shim, in the directory of the slots.
func SocketName(pid int) string { return SocketPrefix + strconv.Itoa(pid) }

// SocketPrefix begins the names of the sockets of shims.
const SocketPrefix = "shim-"

// GroupPrefix begins the names of the control groups of all slots in a directory, and of no
// others of the machine.
func GroupPrefix(slots string) string { return cgroup.Prefix + Marker(slots)[:16] + "-" }

// GroupName returns the name of the control group of a slot.
func GroupName(dir string) string { return GroupPrefix(filepath.Dir(dir)) + filepath.Base(dir) }

// Record is the content of ExitFile.
type Record struct {
	Version     int    `json:"version"`
	Incarnation uint64 `json:"incarnation"`
	End         End    `json:"end"`
	Before      []Past `json:"past,omitempty"` // oldest first, at most Remembered
}

// Past is the end of an earlier incarnation. All of them may have ended while no daemon ran.
type Past struct {
	Incarnation uint64 `json:"incarnation"`
	End         End    `json:"end"`
}

// Remembered is the number of ends in a record, in addition to the last one. By so many crashes
// an agent may be ahead of the log of a daemon.
const Remembered = 8

// maxPastText bounds the text of an earlier end, in bytes.
const maxPastText = 512

// short returns an end without its last output and with a bounded text, because a record holds
// several.
func (e End) short() End {
	if e.Failure == nil {
		return e
	}
	f := *e.Failure
	if len(f.Text) > maxPastText {
		f.Text = strings.ToValidUTF8(f.Text[:maxPastText], "") + "…"
	}
	if f.Exit != nil {
		exit := *f.Exit
		exit.LastOutput = nil
		f.Exit = &exit
	}
	e.Failure = &f
	return e
}

// NewRecord returns the record of an incarnation, with the ends in the record before it.
func NewRecord(dir string, incarnation uint64, end End, last *Record) *Record {
	r := &Record{Version: Version, Incarnation: incarnation, End: end}
	if last == nil {
		last, _ = ReadRecord(dir)
	}
	if last != nil && last.Incarnation > 0 && last.Incarnation < incarnation {
		for _, p := range last.Before[max(0, len(last.Before)-Remembered+1):] {
			r.Before = append(r.Before, Past{Incarnation: p.Incarnation, End: p.End.short()})
		}
		r.Before = append(r.Before, Past{Incarnation: last.Incarnation, End: last.End})
	}
	return r
}

// ReadState reads the state of the last incarnation, without its end. Shim is zero if it has left
// the slot. The error wraps fs.ErrNotExist if nothing was ever started.
func ReadState(dir string) (*State, error) {
	lock := filepath.Join(dir, LockFile)
	s := new(State)
	if isEmpty(lock) && !exists(filepath.Join(dir, ExitFile)) {
		return s, &fs.PathError{Op: "read", Path: lock, Err: fs.ErrNotExist}
	}
	err := ReadFile(lock, s, &s.Version)
	if err != nil && !IsMissing(err) { // its shim may just have written a part of it
		s = new(State)
		err = ReadFile(lock, s, &s.Version)
	}
	return s, err
}

// isEmpty reports whether there is a regular file without content.
func isEmpty(file string) bool {
	var st unix.Stat_t
	return unix.Lstat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0
}

func exists(file string) bool {
	var st unix.Stat_t
	return unix.Lstat(file, &st) == nil
}

// WriteState writes the state, without its end, to the lock file, which its holder has open. This is
// one short write to a block of the file, which a signal does not split. Blanks replace the rest of a
// longer text, because truncating the file would be a second step. Nothing is synced, since the
// content is useless after the machine has stopped.
func WriteState(lock *os.File, s *State) error {
	if s.End != nil {
		running := *s
		running.End = nil
		s = &running
	}
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("%s: %w", LockFile, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(lock.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: lock.Name(), Err: err}
	}
	for int64(len(b)) < min(st.Size, maxFile) {
		b = append(b, ' ')
	}
	_, err = lock.WriteAt(b, 0)
	return err
}

// ReadRecord reads the exit record. The error wraps fs.ErrNotExist if no incarnation has ended.
func ReadRecord(dir string) (*Record, error) {
	r := new(Record)
	err := ReadFile(filepath.Join(dir, ExitFile), r, &r.Version)
	return r, err
}

// ReadFile reads a file of WriteFile into v, whose version is *version.
func ReadFile(file string, v any, version *int) error {
	b, err := private.ReadFile(file, maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: damaged: %w", file, err)
	}
	if *version != Version {
		return fmt.Errorf("%s: unknown version %d, expected %d", file, *version, Version)
	}
	return nil
}

// WriteFile replaces a file atomically, without syncing it. It must not be called concurrently
// for a file.
func WriteFile(file string, v any) error {
	temp := next(file, "")
	if err := write(temp, v, false); err != nil {
		return err
	}
	return rename(temp, file)
}

// WriteSynced is WriteFile with a sync, so that a power cut cannot undo it. When the new content
// is on the disk, it calls current, which decides whether to call replace.
func WriteSynced(file string, v any, current func(replace func() error) error) error {
	temp := next(file, ".sync")
	if err := write(temp, v, true); err != nil {
		return err
	}
	if err := current(func() error { return rename(temp, file) }); err != nil {
		return err
	}
	d, err := private.OpenDir(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// rename moves temp to file. Renaming over an existing file makes ext4 write the new one to the
// disk immediately, for milliseconds in which an agent is down. Exchanging the two does not. The
// old content stays in temp, for the next time.
func rename(temp, file string) error {
	if exchange(temp, file) == nil {
		return nil
	}
	return os.Rename(temp, file)
}

func next(file, suffix string) string {
	return filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+suffix)
}

func write(file string, v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	f, err := private.OpenFile(file, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	n, err := f.Write(append(b, '\n'))
	if err == nil {
		err = shorten(f, int64(n)) // not to 0 before, which would also make ext4 write to the disk
	}
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// shorten cuts off what a file has after the first size bytes. A file that has no more is not
// changed, which would cost a transaction of the file system.
func shorten(f *os.File, size int64) error {
	st, err := f.Stat()
	if err != nil || st.Size() <= size {
		return err
	}
	return f.Truncate(size)
}

// IsMissing reports whether a file of a slot does not exist.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// SameFile reports whether an open file has this name.
func SameFile(f *os.File, name string) bool {
	var open, named unix.Stat_t
	return unix.Fstat(int(f.Fd()), &open) == nil && unix.Lstat(name, &named) == nil &&
		open.Dev == named.Dev && open.Ino == named.Ino
}

// WakeSignal makes a shim check whether its files exist. By default the signal is ignored, so it
// does not affect a shim that is just being started.
const WakeSignal = unix.SIGWINCH

// MakeDir creates the directory of a slot, which must belong to this user alone.
func MakeDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = private.Dir(dir)
	}
	if err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	return nil
}
