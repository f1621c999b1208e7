package session

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// match is a file that was found.
type match struct {
	dir *directory
	*entry
}

func (m match) path() string { return path.Join(m.dir.path, m.name) }

// walk is one look at a tree, whose lock is held. It opens the directory of the command line if it has to.
type walk struct {
	tree *tree
	now  time.Time
	root *os.Root
	err  error // of opening it

	since time.Time // files that were last written before are left out
	made  bool      // files that were made before may be left out, too
}

// open returns the directory of the command line, nil if it cannot be opened.
func (w *walk) open() *os.Root {
	if w.root == nil && w.err == nil {
		w.root, w.err = os.OpenRoot(w.tree.dir)
	}
	return w.root
}

func (w *walk) close() {
	if w.root != nil {
		w.root.Close()
	}
}

// stat returns what a directory is now, nil if there is none.
func (w *walk) stat(dir string) fs.FileInfo {
	root := w.open()
	if root == nil {
		return nil
	}
	info, err := root.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	return info
}

// lstat returns what is at a path now, nil if nothing is.
func (w *walk) lstat(path string) *entry {
	root := w.open()
	if root == nil {
		return nil
	}
	info, err := root.Lstat(path)
	if err != nil {
		return nil
	}
	return newEntry(info)
}

// header returns the header of a file. It is empty if it could not be read yet.
func (w *walk) header(m match) header {
	if m.header == nil {
		h, ok := w.readHeader(m.path())
		if !ok {
			w.tree.unread = true
			return header{}
		}
		m.entry.header = &h
	}
	if !m.header.whole() && m.size < maxHeader {
		w.tree.pending[m.path()] = m.entry
	}
	return *m.header
}

// readHeader reads the header of a file, unless too many were read since the last check.
func (w *walk) readHeader(path string) (h header, ok bool) {
	root := w.open()
	if root == nil || w.tree.room <= 0 {
		return h, false
	}
	began := time.Now()
	h, n := readHeader(root, w.tree.cli, path)
	w.tree.room -= max(n, minHeader)
	w.tree.took -= time.Since(began) // room bounds it
	return h, true
}

// glob returns the paths of the regular files that match a pattern, given as its segments. Newer names come first.
func (w *walk) glob(pattern ...string) (all []string) {
	for _, m := range w.matches(pattern...) {
		all = append(all, m.path())
	}
	return all
}

// matches returns the regular files that match a pattern, as glob does.
func (w *walk) matches(pattern ...string) []match {
	dir := "."
	for len(pattern) > 1 && !strings.Contains(pattern[0], "*") {
		dir, pattern = path.Join(dir, pattern[0]), pattern[1:]
	}
	return w.below(nil, dir, pattern)
}

// below adds what matches below a directory.
func (w *walk) below(all []match, dir string, pattern []string) []match {
	d := w.directory(dir)
	first, rest := pattern[0], pattern[1:]
	if d.info == nil || len(rest) == 0 && w.made && d.info.ModTime().Before(w.since) {
		return all // nothing was made in it of late, however many files it has
	}
	for _, e := range w.names(d, first) {
		switch {
		case len(rest) == 0 && e.mode.IsRegular() && !e.time.Before(w.since):
			all = append(all, match{d, e})
		case len(rest) > 0 && (e.mode.IsDir() || e.mode&fs.ModeSymlink != 0):
			all = w.below(all, path.Join(dir, e.name), rest)
		}
	}
	return all
}

// names returns the entries of a directory whose names match a pattern. A pattern has at most one star.
func (w *walk) names(d *directory, pattern string) []*entry {
	if !d.listed {
		w.read(d)
	}
	start, end, wild := strings.Cut(pattern, "*")
	if !wild {
		e := d.find(pattern)
		if e == nil && d.partial {
			e = w.lstat(path.Join(d.path, pattern))
		}
		if e == nil {
			return nil
		}
		return []*entry{e}
	}
	if start == "" && end == "" {
		return d.entries
	}
	var all []*entry
	for _, e := range d.entries {
		if len(e.name) >= len(start)+len(end) && strings.HasPrefix(e.name, start) && strings.HasSuffix(e.name, end) {
			all = append(all, e)
		}
	}
	return all
}
