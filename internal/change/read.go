package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrMoved means that a work tree is not as it was when the change was read.
var ErrMoved = errors.New("the work tree has changed since it was read")

// Read reads what was changed in the work tree at dir since the commit base: everything committed,
// staged, changed or new, by anyone and in any way. Ignored files count only if they are in the
// base or the index of the repository. It is the .gitignore files of the base that decide; other
// ignore rules are not used. Read writes the content as a tree object and nothing else: the index,
// the references and the work tree stay as they are.
//
// Pass the id of a commit as base if the work tree cannot be trusted: a reference may have been
// moved.
func Read(ctx context.Context, dir, base string) (c *Change, err error) {
	s, commit, err := locate(ctx, dir, base)
	if err != nil {
		return nil, fmt.Errorf("reading the change in %s: %w", Quote(dir), err)
	}
	c = &Change{Base: commit, source: s, Files: []File{}}
	if err = c.read(ctx); err != nil {
		if large, ok := errors.AsType[tooLarge](err); ok {
			c.Files, c.Tree, c.TooLarge = []File{}, "", string(large)
			return c, nil
		}
		return nil, fmt.Errorf("reading the change in %s: %w", Quote(dir), err)
	}
	return c, nil
}

func (c *Change) read(ctx context.Context) (err error) {
	p, err := c.source.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	shot, err := p.snapshot(ctx, c.source, c.Base)
	c.Hidden = shot.hidden
	if err != nil {
		return err
	}
	c.Tree = shot.tree
	c.present = slices.Sorted(maps.Keys(shot.after))
	if err := shot.bounded(); err != nil {
		return err
	}
	if c.links, err = p.links(ctx, shot.after); err != nil {
		return err
	}
	if c.Files, err = p.diff(ctx, c.Base, c.Tree); err != nil {
		return err
	}
	shot.markCopies(c.Files)
	return p.measure(ctx, c.Files)
}

// Verify returns an error that wraps ErrMoved if the work tree is no longer as it was when the change
// was read: a process that outlives an agent may still write. It reads the whole work tree again.
func (c *Change) Verify(ctx context.Context) (err error) {
	if c.Tree == "" {
		return errors.New("the change is too large: it was not read")
	}
	p, err := c.source.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	shot, err := p.snapshot(ctx, c.source, c.Base)
	if large, ok := errors.AsType[tooLarge](err); ok {
		return fmt.Errorf("%w: now %s", ErrMoved, string(large))
	}
	if err != nil {
		return err
	}
	if shot.tree == c.Tree && slices.Equal(shot.hidden, c.Hidden) {
		return nil
	}
	moved, err := p.diff(ctx, c.Tree, shot.tree)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range moved {
		names = append(names, Quote(f.Path))
	}
	for _, h := range shot.hidden {
		if !slices.Contains(c.Hidden, h) {
			names = append(names, Quote(h.Path))
		}
	}
	if n := len(names); n > 5 {
		names = append(names[:5], fmt.Sprintf("%d more", n-5))
	}
	return fmt.Errorf("%w: %s", ErrMoved, strings.Join(names, ", "))
}

// bounded returns an error if the change exceeds MaxFiles or MaxBytes.
func (s *snapshot) bounded() error {
	files, size := 0, int64(0)
	count := func(before, after entry) {
		if before.id != after.id || before.mode != after.mode {
			files++
			size += max(0, before.size) + max(0, after.size)
		}
	}
	for name, before := range s.base {
		count(before, s.after[name])
	}
	for name, after := range s.after {
		if _, ok := s.base[name]; !ok {
			count(entry{}, after)
		}
	}
	switch {
	case files > MaxFiles:
		return tooManyFiles()
	case size > MaxBytes:
		return tooManyBytes()
	}
	return nil
}

// markCopies finds added files with the content of a file that was and is there.
func (s *snapshot) markCopies(files []File) {
	var kept map[string]string // the first path of each content
	for i, f := range files {
		if f.Status != Added || f.New.Mode == Submodule || s.after[f.Path].size == 0 {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
			for name, e := range s.base {
				if first, ok := kept[e.id]; s.after[name].id == e.id && (!ok || name < first) {
					kept[e.id] = name
				}
			}
		}
		if from, ok := kept[f.New.ID]; ok {
			files[i].Status, files[i].OldPath = Copied, from
		}
	}
}

// diff compares two trees.
func (p *private) diff(ctx context.Context, from, to string) ([]File, error) {
	out, err := p.output(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff",
		"--no-textconv", "--find-renames=50%", from, to, "--")
	if err != nil {
		return nil, err
	}
	files, err := parseDiff(out)
	if err != nil {
		return nil, fmt.Errorf("git diff-tree: %w", err)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// parseDiff parses the output of git diff-tree -z --raw --numstat.
func parseDiff(out string) ([]File, error) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	next := func() (field string) {
		if len(fields) > 0 {
			field, fields = fields[0], fields[1:]
		}
		return field
	}
	files := []File{}
	index := map[string]int{}
	for len(fields) > 0 && strings.HasPrefix(fields[0], ":") {
		raw := strings.Fields(next()[1:]) // modes, ids, status
		if len(raw) != 5 {
			return nil, fmt.Errorf("%q: expected two modes, two ids and a status", raw)
		}
		f := File{Path: next(), Old: side(raw[0], raw[2]), New: side(raw[1], raw[3])}
		switch raw[4][0] {
		case 'A':
			f.Status = Added
		case 'D':
			f.Status = Deleted
		case 'M':
			f.Status = Modified
		case 'T':
			f.Status = TypeChanged
		case 'R':
			f.Status, f.OldPath, f.Path = Renamed, f.Path, next()
		default:
			return nil, fmt.Errorf("%q: unknown status %q", f.Path, raw[4])
		}
		index[f.Path] = len(files)
		files = append(files, f)
	}
	for len(fields) > 0 && fields[0] != "" {
		parts := strings.SplitN(next(), "\t", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q: expected two numbers and a path", parts)
		}
		if parts[2] == "" { // a renamed file
			next()
			parts[2] = next()
		}
		added, err := strconv.Atoi(parts[0])
		deleted, err2 := strconv.Atoi(parts[1])
		i, ok := index[parts[2]]
		if err != nil || err2 != nil || !ok {
			return nil, fmt.Errorf("%q: expected two numbers and a changed path", parts)
		}
		files[i].Added, files[i].Deleted = added, deleted
	}
	return files, nil
}

func side(mode, id string) Side {
	if mode == "000000" {
		return Side{}
	}
	return Side{Mode: Mode(mode), ID: id}
}

// measure fills in sizes, line counts and targets.
func (p *private) measure(ctx context.Context, files []File) error {
	sides := map[string][]*Side{}
	var ids []string
	for i := range files {
		for _, s := range []*Side{&files[i].Old, &files[i].New} {
			if s.Mode == "" || s.Mode == Submodule {
				continue
			}
			if sides[s.ID] == nil {
				ids = append(ids, s.ID)
			}
			sides[s.ID] = append(sides[s.ID], s)
		}
	}
	return p.blobs(ctx, ids, func(id string, size int64, content io.Reader) error {
		text, err := io.ReadAll(content) // MaxBytes bounds it
		lines := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			lines++
		}
		for _, s := range sides[id] {
			s.Size, s.Lines = size, lines
			s.Binary = bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0
			if s.Mode == Symlink {
				s.Target = string(text)
			}
		}
		return err
	})
}

// Contents returns the contents of both sides of files, by id. Symbolic links and submodules have
// none.
func (c *Change) Contents(ctx context.Context, files []File) (all map[string]string, err error) {
	var ids []string
	for _, f := range files {
		for _, s := range []Side{f.Old, f.New} {
			if s.Mode == Regular || s.Mode == Executable {
				ids = append(ids, s.ID)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	p, err := c.source.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	all = map[string]string{}
	return all, p.blobs(ctx, ids, func(id string, size int64, content io.Reader) error {
		text, err := io.ReadAll(content)
		all[id] = string(text)
		return err
	})
}
