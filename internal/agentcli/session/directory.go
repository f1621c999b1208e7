package session

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// maxEntries bounds the entries of all directories of a tree that are known. One directory takes at most half of what
// is left, so that one that is very large leaves room for others.
const maxEntries = 200_000

// racy is the time after a change of a directory in which it is read again at each check: its next change may have the
// same time, as times of files are coarse.
const racy = time.Second

// directory caches the entries of a directory.
type directory struct {
	path    string
	info    fs.FileInfo // when it was looked at last; nil if it was not there
	stale   bool        // it has changed since
	swept   bool        // entries are to be looked at again, too
	listed  bool        // entries are those of info
	entries []*entry    // newer names first
	partial bool        // there are more
	racy    bool        // it may have changed right after it was read
	used    bool        // since the last sweep
}

// changed reports whether a directory has changed, given what it is now.
func (d *directory) changed(now fs.FileInfo) bool {
	if d.info == nil || now == nil {
		return (d.info == nil) != (now == nil)
	}
	return !os.SameFile(d.info, now) || !d.info.ModTime().Equal(now.ModTime()) || d.listed && d.racy
}

// find returns the entry of a name, nil if there is none.
func (d *directory) find(name string) *entry {
	older := func(e *entry, name string) int { return cmp.Compare(name, e.name) }
	i, ok := slices.BinarySearchFunc(d.entries, name, older)
	if !ok {
		return nil
	}
	return d.entries[i]
}

// entry is a file of a directory, or another directory.
type entry struct {
	name   string
	mode   fs.FileMode
	size   int64
	time   time.Time // of the last change
	inode  uint64
	header *header // nil if it was not read
}

func newEntry(info fs.FileInfo) *entry {
	e := &entry{name: info.Name(), mode: info.Mode(), size: info.Size(), time: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		e.inode = sys.Ino
	}
	return e
}

// same reports whether nothing was written since an earlier look.
func (e *entry) same(before *entry) bool {
	return e.inode == before.inode && e.size == before.size && e.time.Equal(before.time)
}

// directory returns what is known of a directory, which is looked at now if it was not since it has changed.
func (w *walk) directory(path string) *directory {
	t := w.tree
	d := t.dirs[path]
	if d == nil {
		d = &directory{path: path, stale: true}
		t.dirs[path] = d
	}
	if d.used = true; d.stale {
		now := w.stat(path)
		t.keep(d, now)
		d.info, d.stale, d.listed = now, false, false
	}
	return d
}

// read reads the names of a directory. The entries of names that it has had before are kept, until a sweep has them
// looked at again: a name has the ID of its session, so another file of this name is of the same one.
func (w *walk) read(d *directory) {
	t := w.tree
	before := *d
	t.entries -= len(d.entries)
	d.entries, d.listed, d.partial, d.racy, d.swept = nil, true, false, false, false
	root := w.open()
	if root == nil {
		return
	}
	in, err := root.OpenFile(d.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer in.Close()
	info, err := in.Stat() // first, so that what changes meanwhile is seen later
	if err != nil {
		return
	}
	d.info, d.racy = info, info.ModTime().After(w.now.Add(-racy))
	room := max(1, (maxEntries-t.entries)/2)
	names, _ := in.Readdirnames(room)
	d.partial = len(names) == room
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	d.entries = w.entriesOf(d.path, names, before)
	t.entries += len(d.entries)
}

// entriesOf returns the entries of names, with those that are known from before.
func (w *walk) entriesOf(dir string, names []string, before directory) []*entry {
	all := make([]*entry, 0, len(names))
	old := before.entries
	var root *os.Root // of the directory: to look at a file below it is one system call
	for _, name := range names {
		for len(old) > 0 && old[0].name > name {
			old = old[1:]
		}
		known := len(old) > 0 && old[0].name == name
		if known && !before.swept {
			all = append(all, old[0])
			continue
		}
		if root == nil {
			var err error
			if root, err = w.root.OpenRoot(dir); err != nil {
				return all
			}
			defer root.Close()
		}
		info, err := root.Lstat(name)
		if err != nil {
			continue
		}
		e := newEntry(info)
		if known && e.same(old[0]) {
			e.header = old[0].header
		}
		all = append(all, e)
	}
	return all
}
