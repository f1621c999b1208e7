package change

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/change/pattern"
)

// maxIgnore bounds a .gitignore file, in bytes. More of it is not read.
const maxIgnore = 1 << 20

// snapshot is the content of a work tree, written as a tree object.
type snapshot struct {
	base, after map[string]entry
	tree        string
	hidden      []Hidden
}

// snapshot writes the tree. Its error is a tooLarge if the tree is not written since the change is
// too large; the result is never nil.
func (p *private) snapshot(ctx context.Context, s source, commit string) (*snapshot, error) {
	shot := &snapshot{}
	baseTree, err := p.verify(ctx, commit)
	if err != nil {
		return shot, err
	}
	if shot.base, err = p.list(ctx, baseTree); err != nil {
		return shot, err
	}
	if err := p.rebuild(ctx, shot.base, baseTree); err != nil {
		return shot, err
	}
	ignores, err := p.ignores(ctx, shot.base)
	if err != nil {
		return shot, err
	}
	index, err := s.index(ctx)
	if err != nil {
		return shot, err
	}
	w, err := walk(ctx, s.dir, shot.base, index, ignores)
	if w != nil {
		shot.hidden = w.hidden
	}
	if err != nil {
		return shot, err
	}
	if shot.tree, err = p.write(ctx, w); err != nil {
		return shot, err
	}
	shot.after, err = p.list(ctx, shot.tree)
	return shot, err
}

// verify reads a commit and returns its tree. The content has to have the id that it is named by:
// git does not check that when it reads a commit.
func (p *private) verify(ctx context.Context, commit string) (tree string, err error) {
	text, err := p.output(ctx, nil, "cat-file", "commit", commit)
	if err != nil {
		return "", err
	}
	id, err := p.output(ctx, strings.NewReader(text), "hash-object", "-t", "commit", "--stdin")
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(text, "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok || strings.TrimSpace(id) != commit {
		return "", fmt.Errorf("commit %s has another content than its id says", commit)
	}
	return tree, nil
}

// rebuild writes the tree of the base again from its files, to check that it has them.
func (p *private) rebuild(ctx context.Context, files map[string]entry, tree string) error {
	g := p.withIndex("base.index")
	var lines strings.Builder
	for name, e := range files {
		fmt.Fprintf(&lines, "%s %s\t%s\x00", e.mode, e.id, name)
	}
	_, err := g.output(ctx, strings.NewReader(lines.String()), "update-index", "-z", "--index-info")
	if err != nil {
		return err
	}
	id, err := g.output(ctx, nil, "write-tree")
	if err == nil && strings.TrimSpace(id) != tree {
		err = fmt.Errorf("tree %s has another content than its id says", tree)
	}
	return err
}

// list returns the files of a tree.
func (p *private) list(ctx context.Context, tree string) (map[string]entry, error) {
	out, err := p.output(ctx, nil, "ls-tree", "-r", "-l", "-z", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if record == "" {
			continue
		}
		head, name, ok := strings.Cut(record, "\t")
		fields := strings.Fields(head) // mode, type, id, size
		if !ok || len(fields) != 4 {
			return nil, fmt.Errorf("git ls-tree: %q: expected a mode, a type, an id, a size and a path", record)
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			size = -1 // of a submodule
		}
		mode := Mode(fields[0])
		if mode == "100664" { // written by old versions of git
			mode = Regular
		}
		all[name] = entry{mode, fields[2], size}
	}
	return all, nil
}

// ignores reads the .gitignore files of a tree.
func (p *private) ignores(ctx context.Context, files map[string]entry) (map[string][]pattern.Pattern, error) {
	dirs := map[string][]string{} // by id
	var ids []string
	for name, e := range files {
		if path.Base(name) == ".gitignore" && (e.mode == Regular || e.mode == Executable) {
			if dirs[e.id] == nil {
				ids = append(ids, e.id)
			}
			dirs[e.id] = append(dirs[e.id], path.Dir(name))
		}
	}
	all := map[string][]pattern.Pattern{}
	return all, p.blobs(ctx, ids, func(id string, _ int64, content io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(content, maxIgnore))
		for _, dir := range dirs[id] {
			all[dir] = pattern.ParseFile(string(text))
		}
		return err
	})
}

// index returns the index of the repository.
func (s source) index(ctx context.Context) (map[string]entry, error) {
	out, err := theirs(s.dir).output(ctx, nil, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for record := range strings.SplitSeq(out, "\x00") {
		if head, name, ok := strings.Cut(record, "\t"); ok {
			if fields := strings.Fields(head); len(fields) == 3 { // mode, id, stage
				all[name] = entry{Mode(fields[0]), fields[1], -1}
			}
		}
	}
	return all, nil
}

// write writes what was found in a work tree as a tree object.
func (p *private) write(ctx context.Context, w *walker) (tree string, err error) {
	g := p.withIndex("index")
	var known strings.Builder // a submodule that is not checked out stays as it is
	for _, name := range w.submodules {
		e := w.base[name]
		if e.mode != Submodule {
			e = w.index[name]
		}
		fmt.Fprintf(&known, "%s %s\t%s\x00", e.mode, e.id, name)
	}
	if _, err := g.output(ctx, strings.NewReader(known.String()), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	names := strings.Join(append(w.paths, w.submodules...), "\x00")
	if _, err := g.output(ctx, strings.NewReader(names), "update-index", "--add", "-z", "--stdin"); err != nil {
		return "", err
	}
	id, err := g.output(ctx, nil, "write-tree")
	return strings.TrimSpace(id), err
}

// blobs passes the content of each object to read.
func (p *private) blobs(ctx context.Context, ids []string,
	read func(id string, size int64, content io.Reader) error) error {
	if len(ids) == 0 {
		return nil
	}
	list := strings.NewReader(strings.Join(ids, "\n") + "\n")
	return p.run(ctx, list, func(out io.Reader) error {
		r := bufio.NewReaderSize(out, 64<<10)
		for _, id := range ids {
			line, err := r.ReadString('\n')
			if errors.Is(err, io.EOF) {
				return nil // git has failed, and says why
			}
			fields := strings.Fields(line) // id, type, size
			if err != nil || len(fields) != 3 || fields[0] != id {
				return fmt.Errorf("object %s: %q", id, line)
			}
			size, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				return err
			}
			content := io.LimitReader(r, size)
			if err := read(id, size, content); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
			if _, err := r.Discard(1); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch")
}
