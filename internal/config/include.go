package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Bounds of what a file may include: a pattern can meet a directory of any
// size, and what it finds is read into memory.
const (
	// MaxIncludes is how many files may be included, all together.
	MaxIncludes = 1000
	// MaxTotal is how many bytes all files together may have.
	MaxTotal = 4 << 20
	// maxEntries is how many entries of directories are compared with patterns.
	maxEntries = 100_000
)

// gatherer finds and reads what a file includes.
type gatherer struct {
	r        *reader
	dir      string // absolute, of the file that includes
	shown    string // the same as errors give it
	files    []included
	size     int64              // of all files
	entries  int                // of directories, that were looked at
	watch    map[string]bool    // directories whose changes matter
	document []*value           // one for each included file that could be read
	sources  map[string]*source // what read has read, by absolute paths
	advice   advice             // for all of them together
}

// included is a file that was read, or was to be.
type included struct {
	data []byte // nil if it could not be read
	info fs.FileInfo
	path string
	by   *value // what names it; nil for the first file
}

// include reads what the file whose document it is includes, and joins it to
// that. It reports false if something could not be read or parsed, for what is
// missing would only be the cause of more errors.
func (g *gatherer) include(document *value) bool {
	before := len(g.r.errs)
	if list := document.byName["include"]; list != nil && g.r.want(list, isArray, "an array of paths") {
		for _, e := range list.elements {
			if path, ok := g.r.text(e, "a path"); ok && !g.one(e, path) {
				break // too much already
			}
		}
	}
	for _, d := range g.document {
		document.join(d)
	}
	return len(g.r.errs) == before
}

// one reads what an element of include stands for. It reports false if no more can be read.
func (g *gatherer) one(e *value, path string) bool {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		g.r.fail(e.at, e, "write the whole path", "%s: ~ is not expanded", spec.Quote(path))
		return true
	case strings.Contains(path, "**"):
		g.r.fail(e.at, e, `write a "*" for each level, as in "agents/*/*.toml"`, "%s: ** is not supported",
			spec.Quote(path))
		return true
	}
	if !hasMeta(path) {
		return g.file(e, path)
	}
	root, rest := ".", filepath.Clean(path)
	if filepath.IsAbs(rest) {
		root, rest = "/", strings.TrimLeft(rest, "/")
	}
	found, err := g.glob(root, strings.Split(rest, "/"), MaxIncludes)
	switch {
	case errors.Is(err, filepath.ErrBadPattern):
		g.r.fail(e.at, e, `a "[" begins a set of characters; \ escapes it`, "%s is no pattern", spec.Quote(path))
		return true
	case err != nil:
		g.r.fail(e.at, e, "", "%s: %v", spec.Quote(path), reason(err))
		return !errors.Is(err, errTooMany)
	case len(found) == 0:
		g.r.notice(e, "%s matches no file", spec.Quote(path))
	}
	for _, path := range found {
		if !g.file(e, path) {
			return false
		}
	}
	return true
}

func hasMeta(path string) bool { return strings.ContainsAny(path, `*?[\`) }

var errTooMany = errors.New("too many")

// glob returns the paths that match, sorted, at most so many. Relative ones are relative to g.dir.
func (g *gatherer) glob(root string, segments []string, most int) ([]string, error) {
	paths := []string{root}
	for i, segment := range segments {
		last := i == len(segments)-1
		var next []string
		for _, dir := range paths {
			if !hasMeta(segment) {
				next = append(next, filepath.Join(dir, segment))
				continue
			}
			names, err := g.match(g.absolute(dir), segment, !last, most-len(next), most)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				next = append(next, filepath.Join(dir, name))
			}
		}
		paths = next
	}
	if last := segments[len(segments)-1]; !hasMeta(last) { // a/*/b.toml: some of a have no b.toml
		paths = slices.DeleteFunc(paths, func(path string) bool {
			g.watchNear(filepath.Dir(g.absolute(path)))
			_, err := os.Lstat(g.absolute(path))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	slices.Sort(paths)
	return paths, nil
}

// match returns what matches in a directory; nothing if there is none. As in
// the shell, a wildcard in front matches no dot: editors keep copies so.
func (g *gatherer) match(dir, pattern string, onlyDirs bool, left, most int) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	g.watchNear(dir)
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var names []string
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			name := e.Name()
			if ok, _ := filepath.Match(pattern, name); !ok || name[0] == '.' && pattern[0] != '.' {
				continue
			}
			if onlyDirs {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
					continue
				}
			}
			names = append(names, name)
		}
		g.entries += len(entries)
		switch {
		case len(names) > left:
			return nil, fmt.Errorf("%w: more than %d files match, expected at most that", errTooMany, most)
		case g.entries > maxEntries:
			return nil, fmt.Errorf("%w: it leads to more than %d entries of directories, expected at most that",
				errTooMany, maxEntries)
		case err == io.EOF:
			return names, nil
		case err != nil:
			return nil, err
		}
	}
}

// file reads a file. It reports false if no more can be read.
func (g *gatherer) file(e *value, path string) bool {
	if len(g.files) > MaxIncludes {
		g.r.fail(e.at, e, "put several agents into one file",
			"more than %d files are included, expected at most that", MaxIncludes)
		return false
	}
	absolute := g.absolute(path)
	shown := filepath.Clean(path)
	if !filepath.IsAbs(path) && g.shown != "." {
		shown = filepath.Join(g.shown, path)
	}
	fail := func(hint, format string, args ...any) {
		g.r.fail(e.at, e, hint, "%s %s", spec.Quote(shown), fmt.Sprintf(format, args...))
	}
	g.watchFile(absolute)
	data, info, err := readFile(absolute, advice{missing: "check the path; it is relative to this file",
		large: "split it"})
	f := included{info: info, path: absolute, by: e}
	if err != nil {
		g.files = append(g.files, f)
		fail(err.Hint, "%s", strings.TrimSuffix(err.Message, ", expected the configuration of a project"))
		return true
	}
	for _, other := range g.files {
		if other.info == nil || !os.SameFile(info, other.info) {
			continue
		}
		if other.by == nil {
			fail("put what is included into a directory of its own",
				"is the file that includes it, expected another one")
			return true
		}
		line, _ := other.by.src.position(other.by.at)
		fail("remove one of the two", "is included already, by line %d, expected once", line)
		return true
	}
	if g.size += int64(len(data)); g.size > MaxTotal {
		fail(g.advice.large, "makes %d bytes of all files, expected at most %d", g.size, MaxTotal)
		return false
	}
	src := newSource(shown, data)
	src.dir, src.order = filepath.Dir(absolute), len(g.files)
	f.data = data
	g.files = append(g.files, f)
	document, err := parse(src)
	if err != nil {
		g.r.add(err)
		return true
	}
	if again := document.byName["include"]; again != nil {
		g.r.fail(again.key, again, "include it in "+filepath.Base(g.files[0].path),
			"an included file includes nothing itself")
		document.remove("include")
	}
	g.document = append(g.document, document)
	return true
}

// read reads a file that belongs to the configuration without being included,
// once for all that make use of it. The error has its place.
func (g *gatherer) read(path string, a advice) (*source, *Error) {
	absolute := g.absolute(path)
	if src := g.sources[absolute]; src != nil {
		return src, nil
	}
	shown := g.show(absolute)
	g.watchFile(absolute)
	data, info, err := readFile(absolute, a)
	g.files = append(g.files, included{info: info, path: absolute, data: data})
	if err != nil {
		err.File = shown
		return nil, err
	}
	if g.size += int64(len(data)); g.size > MaxTotal {
		return nil, &Error{File: shown, Message: fmt.Sprintf("makes %d bytes of all files, expected at most %d",
			g.size, MaxTotal), Hint: g.advice.large}
	}
	src := newSource(shown, data)
	src.dir, src.order = filepath.Dir(absolute), len(g.files)-1
	if g.sources == nil {
		g.sources = map[string]*source{}
	}
	g.sources[absolute] = src
	return src, nil
}

// show is an absolute path as errors give it: as the file that was named, where it is below that or beside it.
func (g *gatherer) show(absolute string) string {
	relative, err := filepath.Rel(g.dir, absolute)
	if err != nil || strings.HasPrefix(relative, "../../../") {
		return absolute
	}
	return filepath.Join(g.shown, relative)
}

// note makes a file that is no part of the configuration, but decides upon it, one of its sources.
func (g *gatherer) note(path string, data []byte) {
	g.watchFile(path)
	g.files = append(g.files, included{path: path, data: data})
}

func (g *gatherer) absolute(path string) string { return under(g.dir, path) }

// watchFile makes changes of a file known, also of what it links to.
func (g *gatherer) watchFile(path string) {
	g.watchNear(filepath.Dir(path))
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		g.watchNear(filepath.Dir(real))
	}
}

// watchNear watches a directory, or the nearest one above it that exists.
func (g *gatherer) watchNear(dir string) {
	for !g.watch[dir] {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			g.watch[dir] = true
			return
		}
		dir = filepath.Dir(dir)
	}
}

// watchDirs returns the directories in which a change could change the configuration, sorted.
func (g *gatherer) watchDirs() []string { return slices.Sorted(maps.Keys(g.watch)) }

// sourcePaths returns the paths of all files, in the order of reading.
func (g *gatherer) sourcePaths() (paths []string) {
	for _, f := range g.files {
		if !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// revision returns the SHA-256, in hex, of paths and contents of all files that could be read.
func (g *gatherer) revision() string {
	sorted := slices.Clone(g.files)
	slices.SortFunc(sorted, func(a, b included) int { return cmp.Compare(a.path, b.path) })
	hash := sha256.New()
	put := func(b []byte) {
		hash.Write(binary.AppendUvarint(nil, uint64(len(b)))) // so that no two lists run together
		hash.Write(b)
	}
	for _, f := range sorted {
		if f.data != nil {
			put([]byte(f.path))
			put(f.data)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// newFiles returns the files of a configuration whose first file is at an absolute path,
// and is called name by the user.
func newFiles(name, absolute string, a advice) *gatherer {
	g := &gatherer{advice: a, dir: filepath.Dir(absolute), shown: filepath.Dir(name), watch: map[string]bool{}}
	g.watchFile(absolute)
	return g
}

// first reads the first file.
func (g *gatherer) first(name, absolute string) ([]byte, *Error) {
	data, info, err := readFile(name, g.advice)
	g.files = []included{{path: absolute, info: info, data: data}}
	g.size = int64(len(data))
	return data, err
}

// canRead reports whether files can be read, and not only the first one.
func (g *gatherer) canRead() bool { return g.r != nil }
