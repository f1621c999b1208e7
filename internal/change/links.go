package change

import (
	"context"
	"io"
	"path"
	"strings"
)

const (
	maxLinks = 10_000 // symbolic links in a work tree
	maxHops  = 40     // links that one path may lead through, as in Linux
)

// links are the targets of symbolic links by path.
type links map[string]string

// links reads the symbolic links of a tree.
func (p *private) links(ctx context.Context, files map[string]entry) (links, error) {
	byID := map[string][]string{}
	all := links{}
	var ids []string
	count := 0
	for name, e := range files {
		if e.mode == Symlink {
			if byID[e.id] == nil {
				ids = append(ids, e.id)
			}
			byID[e.id] = append(byID[e.id], name)
			count++
		}
	}
	if count > maxLinks {
		return nil, tooLarge("more than 10,000 symbolic links in the work tree")
	}
	return all, p.blobs(ctx, ids, func(id string, _ int64, content io.Reader) error {
		text, err := io.ReadAll(content)
		for _, name := range byID[id] {
			all[name] = string(text)
		}
		return err
	})
}

// resolve returns the path in the work tree that a link leads to. It is false if the link leads out of the work
// tree, or nowhere since it goes around.
func (l links) resolve(link string) (string, bool) {
	done, rest := path.Dir(link), []string{path.Base(link)}
	for hops := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", false
			}
			done = path.Dir(done)
			continue
		}
		done = path.Join(done, part)
		target, ok := l[done]
		if !ok {
			continue
		}
		if hops++; hops > maxHops || strings.HasPrefix(target, "/") {
			return "", false
		}
		done = path.Dir(done)
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, true
}
