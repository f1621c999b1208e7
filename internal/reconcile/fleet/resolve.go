package fleet

import (
	"cmp"
	"fmt"
	"maps"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Resolve returns the whole path of the node that a caller means. The caller may leave
// out the first segment, and as much of the beginning as leaves the rest unique: a name
// alone is enough for whatever the file names. A whole path takes precedence.
func (f *Fleet) Resolve(path string) string {
	root := f.Tree.Root.Name
	path = strings.Trim(path, "/")
	switch {
	case path == "":
		return root
	case path == root, strings.HasPrefix(path, root+"/"):
		return path
	}
	if !f.Has(root + "/" + path) {
		if found := f.endingIn(path, 2); len(found) == 1 {
			return found[0]
		}
	}
	return root + "/" + path
}

// endingIn returns the first paths, at most limit of them, whose last segments are
// these, in start order.
func (f *Fleet) endingIn(segments string, limit int) (found []string) {
	for _, path := range f.Order {
		if strings.HasSuffix(path, "/"+segments) {
			if found = append(found, path); len(found) == limit {
				break
			}
		}
	}
	return found
}

// NotFound returns the error that there is no node at a path; it names what there is instead.
func (f *Fleet) NotFound(path string) error {
	short := strings.TrimPrefix(path, f.Tree.Root.Name+"/")
	hint := "coppice tree shows all"
	if several := f.endingIn(short, 3); len(several) > 1 {
		hint = "which one is meant: " + strings.Join(several, ", ") + "?"
	} else if near := f.nearest(short); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("%s: %w; %s", path, api.ErrNotFound, hint)
}

// nearest is the path, without the first segment, that is probably meant by
// another one: of those whose last segment is most like its own the most
// similar, and where none is, of all. It is "" if none is similar.
func (f *Fleet) nearest(path string) string {
	byName := make(map[string][]string)
	var all []string
	for _, p := range f.Order {
		_, below, _ := strings.Cut(p, "/")
		name := pathpkg.Base(p)
		byName[name] = append(byName[name], below)
		all = append(all, below)
	}
	namesakes := byName[suggest.Nearest(pathpkg.Base(path), slices.Sorted(maps.Keys(byName)))]
	if len(namesakes) == 1 {
		return namesakes[0]
	}
	return cmp.Or(suggest.Nearest(path, namesakes), suggest.Nearest(path, all))
}
