package slots

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Kept has the logs of slots that were removed: next to the directory of the slots, for a week, as long as there is
// room. It is safe for concurrent use.
type Kept struct {
	dir      string       // of the slots
	discards atomic.Int64 // of this process
}

// NewKept returns the logs that are kept of the slots in a directory. It reads nothing.
func NewKept(dir string) *Kept { return &Kept{dir: dir} }

// Bounds of what is kept. The oldest are deleted first, when a process discards its first slot, and then every 100th.
const (
	keepTime   = 7 * 24 * time.Hour
	keepSlots  = 1000
	keepBytes  = 1 << 30
	pruneEvery = 100
)

const (
	keptSuffix = "-removed" // of the directory of the slots that were removed
	pathFile   = "path"     // has the path of the agent
	maxPath    = 64 << 10   // bytes of it
)

// keptDir returns where the log of a slot is kept when the slot was removed.
func keptDir(slot string) string {
	return filepath.Join(filepath.Dir(slot)+keptSuffix, filepath.Base(slot))
}

// Discard deletes the directory of a slot, and keeps its log. path is that of the agent.
func (k *Kept) Discard(slot, path string) error {
	if _, err := os.Lstat(filepath.Join(slot, logfile.Name)); err != nil {
		return os.RemoveAll(slot)
	}
	kept := keptDir(slot)
	all := filepath.Dir(kept)
	err := os.MkdirAll(all, 0o700)
	if err == nil {
		err = private.Dir(all)
	}
	if err == nil {
		err = private.WriteFile(filepath.Join(slot, pathFile), []byte(path))
	}
	if err == nil {
		err = os.RemoveAll(kept)
	}
	if err == nil {
		err = os.Rename(slot, kept)
	}
	if err != nil {
		return fmt.Errorf("keeping the log of %s: %w", path, err)
	}
	entries, err := os.ReadDir(kept)
	for _, e := range entries {
		if !logfile.Is(e.Name()) && e.Name() != pathFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(kept, e.Name())))
		}
	}
	if k.discards.Add(1)%pruneEvery == 1 {
		err = errors.Join(err, prune(all, time.Now()))
	}
	return err
}

// Restore brings back the log that is kept of a slot, whose directory exists again.
func Restore(slot string) error {
	kept := keptDir(slot)
	entries, err := os.ReadDir(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		to := filepath.Join(slot, e.Name())
		if _, e := os.Lstat(to); !logfile.Is(filepath.Base(to)) || !errors.Is(e, fs.ErrNotExist) {
			continue
		}
		err = errors.Join(err, os.Rename(filepath.Join(kept, e.Name()), to))
	}
	if err == nil {
		err = os.RemoveAll(kept)
	}
	if err != nil {
		return fmt.Errorf("bringing a log back: %w", err)
	}
	return nil
}

// Removed returns the paths of the agents of which a log is kept.
func (k *Kept) Removed() ([]string, error) {
	all := k.dir + keptSuffix
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	oldest := time.Now().Add(-keepTime)
	var paths []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.ModTime().Before(oldest) {
			continue
		}
		path, err := private.ReadFile(filepath.Join(all, e.Name(), pathFile), maxPath)
		if err != nil {
			continue // it is going, or is none of ours
		}
		if name, err := wire.DirName(string(path)); err == nil && name == e.Name() {
			paths = append(paths, string(path))
		}
	}
	return paths, nil
}

// LogFile returns the name of the log of an agent, for package logfile: where it is kept, if the slot was removed. dir
// is the directory of the slots.
func LogFile(dir, path string) (string, error) {
	slot, err := Dir(dir, path)
	if err != nil {
		return "", err
	}
	file, kept := filepath.Join(slot, logfile.Name), filepath.Join(keptDir(slot), logfile.Name)
	if _, err := os.Lstat(file); err == nil {
		return file, nil
	}
	if _, err := os.Lstat(kept); err == nil {
		return kept, nil
	}
	return file, nil
}

// keptLog is a log that is kept.
type keptLog struct {
	dir   string
	since time.Time
	size  int64
}

// Overdue returns the directories of logs, kept of the slots in a directory, that are over the bounds.
// They are deleted at the latest when more slots are removed.
func Overdue(dir string, now time.Time) ([]string, error) {
	overdue, err := overBounds(dir+keptSuffix, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return overdue, err
}

// prune deletes what is over the bounds.
func prune(dir string, now time.Time) error {
	overdue, err := overBounds(dir, now)
	for _, dir := range overdue {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func overBounds(dir string, now time.Time) (overdue []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []keptLog
	for _, e := range entries {
		if l := (keptLog{dir: filepath.Join(dir, e.Name())}); l.measure() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b keptLog) int {
		return cmp.Or(b.since.Compare(a.since), cmp.Compare(a.dir, b.dir))
	})
	size := int64(0)
	for i, l := range all {
		if size += l.size; i >= keepSlots || size > keepBytes || now.Sub(l.since) > keepTime {
			overdue = append(overdue, l.dir)
		}
	}
	return overdue, nil
}

// measure reports whether the log is still there.
func (l *keptLog) measure() bool {
	info, err := os.Lstat(l.dir)
	if err != nil {
		return false
	}
	l.since = info.ModTime()
	files, _ := os.ReadDir(l.dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			l.size += info.Size()
		}
	}
	return true
}
