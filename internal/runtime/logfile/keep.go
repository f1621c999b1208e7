package logfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
)

// Name is the name of the log in the directory of a slot. It is rotated to output.log.1, .2, ...
const Name = "output.log"

// Bounds of the logs that are kept of slots that are gone. The oldest are deleted first.
const (
	keepTime  = 7 * 24 * time.Hour
	keepSlots = 1000
	keepBytes = 1 << 30
)

const (
	keptSuffix = "-removed" // of the directory of the slots that are gone
	pathFile   = "path"     // has the path of the agent
	maxPath    = 64 << 10   // bytes of it
)

// keptDir returns where the log of a slot is kept when the slot is gone.
func keptDir(slot string) string {
	return filepath.Join(filepath.Dir(slot)+keptSuffix, filepath.Base(slot))
}

// Discard deletes the directory of a slot. Its log is kept for a week, as long as there is room, and Restore brings it
// back. path is that of the agent.
func Discard(slot, path string) error {
	if _, err := os.Lstat(filepath.Join(slot, Name)); err != nil {
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
		if !isLog(e.Name()) && e.Name() != pathFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(kept, e.Name())))
		}
	}
	return errors.Join(err, pruneKept(all, time.Now()))
}

// isLog reports whether a file in the directory of a slot is of its log.
func isLog(name string) bool {
	return name == Name || strings.HasPrefix(name, Name+".") || strings.HasPrefix(name, indexName)
}

// Restore brings the log back that was kept of a slot, whose directory exists again.
func Restore(slot string) error {
	kept := keptDir(slot)
	entries, err := os.ReadDir(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		to := filepath.Join(slot, e.Name())
		if _, e := os.Lstat(to); !isLog(filepath.Base(to)) || !errors.Is(e, fs.ErrNotExist) {
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

// Find returns the name of the log of a slot: where it is kept, if the slot is gone.
func Find(slot string) string {
	file, kept := filepath.Join(slot, Name), filepath.Join(keptDir(slot), Name)
	if _, err := os.Lstat(file); err == nil {
		return file
	}
	if _, err := os.Lstat(kept); err == nil {
		return kept
	}
	return file
}

// Kept returns the paths of the agents whose slots are gone and whose logs are kept. slots is the directory of the
// slots, and name returns the name of the directory of one.
func Kept(slots string, name func(path string) (string, error)) ([]string, error) {
	all := slots + keptSuffix
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path, err := private.ReadFile(filepath.Join(all, e.Name(), pathFile), maxPath)
		if err != nil {
			continue // it is going, or is none of ours
		}
		if n, err := name(string(path)); err == nil && n == e.Name() {
			paths = append(paths, string(path))
		}
	}
	return paths, nil
}

// keptLog is the log of a slot that is gone.
type keptLog struct {
	dir   string
	since time.Time
	size  int64
}

// pruneKept deletes what is over the bounds.
func pruneKept(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var all []keptLog
	for _, e := range entries {
		if k := (keptLog{dir: filepath.Join(dir, e.Name())}); k.measure() {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b keptLog) int {
		return cmp.Or(b.since.Compare(a.since), cmp.Compare(a.dir, b.dir))
	})
	size := int64(0)
	for i, k := range all {
		if size += k.size; i >= keepSlots || size > keepBytes || now.Sub(k.since) > keepTime {
			err = errors.Join(err, os.RemoveAll(k.dir))
		}
	}
	return err
}

// measure reports whether the log is still there.
func (k *keptLog) measure() bool {
	info, err := os.Lstat(k.dir)
	if err != nil {
		return false
	}
	k.since = info.ModTime()
	files, _ := os.ReadDir(k.dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			k.size += info.Size()
		}
	}
	return true
}
