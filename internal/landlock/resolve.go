package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links in a path, as in path_resolution(7).
const maxLinks = 40

// place is a path as it is in the file system.
type place struct {
	real    string   // absolute, without symbolic links as far as it exists
	missing bool     // it does not exist
	links   []string // the symbolic links on the way, each with a real directory
}

// resolved are Paths as they are in the file system.
type resolved struct {
	writable  []string
	protected []string
}

// resolve finds out where the paths lead.
//
// A process can replace what is below its writable paths by symbolic links. If these were
// followed, its next incarnation could write anywhere. So a writable path must not lead through a
// symbolic link that is below a writable one.
func (p *Paths) resolve() (*resolved, error) {
	r := new(resolved)
	links := make(map[string][]string) // of the writable paths
	for _, path := range p.ReadWrite {
		name, optional := Optional(path)
		at, err := follow(name)
		if err == nil && at.missing && !optional {
			err = fmt.Errorf("%w; create it, or put - in front to allow that", fs.ErrNotExist)
		}
		if err != nil {
			return nil, fmt.Errorf("read_write_paths: %s: %w", name, err)
		}
		links[name] = at.links
		if !at.missing {
			r.writable = append(r.writable, at.real)
		}
	}
	for name, links := range links {
		for _, link := range links {
			if i := slices.IndexFunc(r.writable, func(w string) bool { return isBelow(link, w) }); i >= 0 {
				return nil, fmt.Errorf("read_write_paths: %s: the symbolic link %s on the way is in %s, which is "+
					"writable; name the target instead", name, link, r.writable[i])
			}
		}
	}
	for _, path := range p.ReadOnly {
		name, optional := Optional(path)
		at, err := follow(name)
		if err == nil && at.missing && !optional {
			err = fmt.Errorf("%w; create it, or put - in front to allow that", fs.ErrNotExist)
		}
		if err == nil && slices.Contains(r.writable, at.real) {
			err = errors.New("it is in read_write_paths, too")
		}
		if err != nil {
			return nil, fmt.Errorf("read_only_paths: %s: %w", name, err)
		}
		// A link that could be replaced would protect something else next time.
		r.protected = append(append(r.protected, at.real), at.links...)
	}
	return r, nil
}

// follow resolves the symbolic links of an absolute path. What does not exist is no error.
func follow(path string) (place, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return place{}, errors.New("expected an absolute path")
	}
	at := place{real: "/"}
	rest := strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" {
			continue
		}
		if name == ".." { // of a link
			at.real = filepath.Dir(at.real)
			continue
		}
		next := filepath.Join(at.real, name)
		st, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			at.real, at.missing = filepath.Join(append([]string{next}, rest...)...), true
			return at, nil
		case err != nil:
			return place{}, err
		case st.Mode()&fs.ModeSymlink == 0:
			at.real = next
			continue
		}
		at.links = append(at.links, next)
		if len(at.links) > maxLinks {
			return place{}, syscall.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return place{}, err
		}
		if filepath.IsAbs(target) {
			at.real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// isBelow reports whether a path is below another one. Both are clean and absolute.
func isBelow(path, dir string) bool {
	return path != dir && (dir == "/" || strings.HasPrefix(path, dir+"/"))
}

// isSplit reports whether a directory contains something protected, so that it cannot be writable
// as a whole.
func (r *resolved) isSplit(dir string) bool {
	return slices.ContainsFunc(r.protected, func(p string) bool { return isBelow(p, dir) })
}

// isProtected reports whether a path is protected, by itself or by a directory above it.
func (r *resolved) isProtected(path string) bool {
	return slices.ContainsFunc(r.protected, func(p string) bool { return p == path || isBelow(path, p) })
}
