// Package fileset finds and reads the files of a configuration: those that a file includes
// by path or pattern, and others that belong to it. It knows which directories to watch for
// changes, and the revision of all files.
package fileset

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

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Limits of includes. A pattern can match files in a directory of any size, and all files
// are read into memory.
const (
	// MaxIncludes is the largest number of included files.
	MaxIncludes = 1000
	// MaxTotal is the largest size of all files together in bytes.
	MaxTotal = 4 << 20
	// maxEntries is the largest number of directory entries that are compared with patterns.
	maxEntries = 100_000
)

// Set is the set of files of a configuration.
type Set struct {
	Reader    *toml.Reader
	Dir       string // absolute directory of the first file
	Shown     string // Dir as errors show it
	files     []included
	size      int64                   // of all files
	entries   int                     // directory entries that were read
	watch     map[string]bool         // directories to watch
	documents []*toml.Value           // of the included files that could be read
	sources   map[string]*toml.Source // files that Read has read, by absolute path
	advice    toml.Advice             // hints for all files
}

// included is a file of the set, whether or not it could be read.
type included struct {
	data []byte // nil if it could not be read
	info fs.FileInfo
	path string
	by   *toml.Value // the value that names it; nil for the first file
}

// New returns the set for a configuration whose first file has an absolute path. name is the
// path that the user gave.
func New(name, absolute string, a toml.Advice) *Set {
	s := &Set{advice: a, Dir: filepath.Dir(absolute), Shown: filepath.Dir(name), watch: map[string]bool{},
		sources: map[string]*toml.Source{}}
	s.WatchFile(absolute)
	return s
}

// First reads the first file.
func (s *Set) First(name, absolute string) ([]byte, *toml.Error) {
	data, info, err := toml.ReadFile(name, s.advice)
	s.files = []included{{path: absolute, info: info, data: data}}
	s.size = int64(len(data))
	return data, err
}

// CanRead reports whether files other than the first can be read.
func (s *Set) CanRead() bool { return s.Reader != nil }

// Include reads the files that a document includes, and joins them to it. It reports false
// if a file could not be read or parsed: missing parts would only cause more errors.
func (s *Set) Include(document *toml.Value) bool {
	before := s.Reader.Count()
	if list := document.Field("include"); list != nil && s.Reader.Want(list, toml.KindArray, "an array of paths") {
		for _, e := range list.Elements {
			if path, ok := s.Reader.Text(e, "a path"); ok && !s.includeOne(e, path) {
				break // a limit is exceeded
			}
		}
	}
	for _, d := range s.documents {
		document.Join(d)
	}
	return s.Reader.Count() == before
}

// includeOne reads the files for one element of include. It reports false if a limit is exceeded.
func (s *Set) includeOne(e *toml.Value, path string) bool {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		s.Reader.Fail(e, "write the whole path", "%s: ~ is not expanded", spec.Quote(path))
		return true
	case strings.Contains(path, "**"):
		s.Reader.Fail(e, `write a "*" for each level, as in "agents/*/*.toml"`, "%s: ** is not supported",
			spec.Quote(path))
		return true
	}
	if !hasMeta(path) {
		return s.file(e, path)
	}
	root, rest := ".", filepath.Clean(path)
	if filepath.IsAbs(rest) {
		root, rest = "/", strings.TrimLeft(rest, "/")
	}
	found, err := s.Glob(root, strings.Split(rest, "/"), MaxIncludes)
	switch {
	case errors.Is(err, filepath.ErrBadPattern):
		s.Reader.Fail(e, `a "[" begins a set of characters; \ escapes it`, "%s is not a valid pattern", spec.Quote(path))
		return true
	case err != nil:
		s.Reader.Fail(e, "", "%s: %v", spec.Quote(path), toml.Reason(err))
		return !errors.Is(err, errTooMany)
	case len(found) == 0:
		s.Reader.Notice(e, "%s matches no file", spec.Quote(path))
	}
	for _, path := range found {
		if !s.file(e, path) {
			return false
		}
	}
	return true
}

func hasMeta(path string) bool { return strings.ContainsAny(path, `*?[\`) }

var errTooMany = errors.New("too many")

// Glob returns the matching paths, sorted, at most most of them. They may be relative to s.Dir.
func (s *Set) Glob(root string, segments []string, most int) ([]string, error) {
	paths := []string{root}
	for i, segment := range segments {
		last := i == len(segments)-1
		var next []string
		for _, dir := range paths {
			if !hasMeta(segment) {
				next = append(next, filepath.Join(dir, segment))
				continue
			}
			names, err := s.Match(s.Absolute(dir), segment, !last, most-len(next), most)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				next = append(next, filepath.Join(dir, name))
			}
		}
		paths = next
	}
	if last := segments[len(segments)-1]; !hasMeta(last) { // a/*/b.toml: not every directory has a b.toml
		paths = slices.DeleteFunc(paths, func(path string) bool {
			s.watchNear(filepath.Dir(s.Absolute(path)))
			_, err := os.Lstat(s.Absolute(path))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	slices.Sort(paths)
	return paths, nil
}

// Match returns the matching names in a directory; none if it does not exist. As in the
// shell, a leading wildcard does not match a dot: editors name their copies like that.
func (s *Set) Match(dir, pattern string, onlyDirs bool, left, most int) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	s.watchNear(dir)
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
		s.entries += len(entries)
		switch {
		case len(names) > left:
			return nil, fmt.Errorf("%w: more than %d files match, expected at most that", errTooMany, most)
		case s.entries > maxEntries:
			return nil, fmt.Errorf("%w: it leads to more than %d entries of directories, expected at most that",
				errTooMany, maxEntries)
		case err == io.EOF:
			return names, nil
		case err != nil:
			return nil, err
		}
	}
}

// file reads an included file. It reports false if a limit is exceeded.
func (s *Set) file(e *toml.Value, path string) bool {
	if len(s.files) > MaxIncludes {
		s.Reader.Fail(e, "put several agents into one file",
			"more than %d files are included, expected at most that", MaxIncludes)
		return false
	}
	absolute := s.Absolute(path)
	shown := filepath.Clean(path)
	if !filepath.IsAbs(path) && s.Shown != "." {
		shown = filepath.Join(s.Shown, path)
	}
	fail := func(hint, format string, args ...any) {
		s.Reader.Fail(e, hint, "%s %s", spec.Quote(shown), fmt.Sprintf(format, args...))
	}
	s.WatchFile(absolute)
	data, info, err := toml.ReadFile(absolute, toml.Advice{Missing: "check the path; it is relative to this file",
		Large: "split it"})
	f := included{info: info, path: absolute, by: e}
	if err != nil {
		s.files = append(s.files, f)
		fail(err.Hint, "%s", strings.TrimSuffix(err.Message, ", expected the configuration of a project"))
		return true
	}
	for _, other := range s.files {
		if other.info == nil || !os.SameFile(info, other.info) {
			continue
		}
		if other.by == nil {
			fail("put what is included into a directory of its own",
				"is the file that includes it, expected another one")
			return true
		}
		fail("remove one of the two", "is included already, by line %d, expected once", other.by.Line())
		return true
	}
	if message := s.addSize(data); message != "" {
		fail(s.advice.Large, "%s", message)
		return false
	}
	f.data = data
	s.files = append(s.files, f)
	document, err := toml.Parse(s.source(shown, absolute, data))
	if err != nil {
		s.Reader.Add(err)
		return true
	}
	if again := document.Field("include"); again != nil {
		s.Reader.FailKey(again, "include it in "+filepath.Base(s.files[0].path),
			"an included file includes nothing itself")
		document.Remove("include")
	}
	s.documents = append(s.documents, document)
	return true
}

// Read reads a file that belongs to the configuration but is not included. It reads each
// file once.
func (s *Set) Read(path string, a toml.Advice) (*toml.Source, *toml.Error) {
	absolute := s.Absolute(path)
	if src := s.sources[absolute]; src != nil {
		return src, nil
	}
	shown := s.Show(absolute)
	s.WatchFile(absolute)
	data, info, err := toml.ReadFile(absolute, a)
	s.files = append(s.files, included{info: info, path: absolute, data: data})
	if err != nil {
		err.File = shown
		return nil, err
	}
	if message := s.addSize(data); message != "" {
		return nil, &toml.Error{File: shown, Message: message, Hint: s.advice.Large}
	}
	src := s.source(shown, absolute, data)
	s.sources[absolute] = src
	return src, nil
}

// addSize adds the size of a file. It returns a message if all files are too large together.
func (s *Set) addSize(data []byte) string {
	if s.size += int64(len(data)); s.size > MaxTotal {
		return fmt.Sprintf("makes %d bytes of all files, expected at most %d", s.size, MaxTotal)
	}
	return ""
}

// source returns the source of the file that was added last.
func (s *Set) source(shown, absolute string, data []byte) *toml.Source {
	src := toml.NewSource(shown, data)
	src.Dir, src.Order = filepath.Dir(absolute), len(s.files)-1
	return src
}

// Show returns an absolute path as errors show it: in or near the directory of the first
// file, like the path of that file.
func (s *Set) Show(absolute string) string {
	relative, err := filepath.Rel(s.Dir, absolute)
	if err != nil || strings.HasPrefix(relative, "../../../") {
		return absolute
	}
	return filepath.Join(s.Shown, relative)
}

// Note adds a file that was read elsewhere to the sources.
func (s *Set) Note(path string, data []byte) {
	s.WatchFile(path)
	s.files = append(s.files, included{path: path, data: data})
}

// Absolute returns the absolute form of a path that may be relative to the first file.
func (s *Set) Absolute(path string) string { return toml.Absolute(s.Dir, path) }

// WatchFile watches a file and the target of a link.
func (s *Set) WatchFile(path string) {
	s.watchNear(filepath.Dir(path))
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		s.watchNear(filepath.Dir(real))
	}
}

// watchNear watches a directory, or the nearest existing one above it.
func (s *Set) watchNear(dir string) {
	for !s.watch[dir] {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			s.watch[dir] = true
			return
		}
		dir = filepath.Dir(dir)
	}
}

// WatchDirs returns the directories in which a change could change the configuration, sorted.
func (s *Set) WatchDirs() []string { return slices.Sorted(maps.Keys(s.watch)) }

// SourcePaths returns the paths of all files, in the order of reading.
func (s *Set) SourcePaths() (paths []string) {
	for _, f := range s.files {
		if !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// Revision returns the SHA-256, in hex, of paths and contents of all files that could be read. It is the same in
// another directory.
func (s *Set) Revision() string {
	sorted := slices.Clone(s.files)
	for i := range sorted {
		if rel, err := filepath.Rel(s.Dir, sorted[i].path); err == nil {
			sorted[i].path = rel
		}
	}
	slices.SortFunc(sorted, func(a, b included) int { return cmp.Compare(a.path, b.path) })
	hash := sha256.New()
	put := func(b []byte) {
		hash.Write(binary.AppendUvarint(nil, uint64(len(b)))) // so that different lists never produce the same bytes
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

// Nearest returns the path of the first of names that exists in dir or the nearest directory
// above it.
func Nearest(dir string, names ...string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for %s above %s: %w", names[0], dir, err)
	}
	for d := absolute; ; d = filepath.Dir(d) {
		for _, name := range names {
			path := filepath.Join(d, name)
			_, err := os.Stat(path)
			if err == nil {
				return path, nil
			}
			// A file that cannot be accessed must not be skipped in favor of another project.
			if !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("looking for %s above %s: %w", name, dir, err)
			}
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no %s in %s or above it: %w", names[0], absolute, fs.ErrNotExist)
		}
	}
}
