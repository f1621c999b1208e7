package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Files are the files in one directory. Names are relative to it, with slashes. Neither ".." nor a
// symbolic link leads out of it. Only regular files are read and written, since a pipe or device
// could block a program forever.
type Files struct {
	dir  string
	root *os.Root
}

// maxNames bounds the number of names that List returns.
const maxNames = 100_000

// OpenFiles opens an existing directory, or the current one if dir is empty. It has to be closed.
func OpenFiles(dir string) (*Files, error) {
	dir, err := filepath.Abs(cmp.Or(dir, "."))
	if err != nil {
		return nil, fmt.Errorf("open the directory for files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory for files (see %s): %w", EnvRoot, err)
	}
	return &Files{dir, root}, nil
}

// Close closes the directory. All later operations fail.
func (f *Files) Close() error { return f.root.Close() }

// wrap adds the operation and the name to an error. It is deferred.
func (f *Files) wrap(operation, name string, failed *error) {
	err := *failed
	if err == nil {
		return
	}
	if e, is := errors.AsType[*fs.PathError](err); is {
		err = e.Err // without the name, which is added below
	}
	if e, is := errors.AsType[*os.LinkError](err); is {
		err = e.Err
	}
	if filepath.IsAbs(name) || !filepath.IsLocal(name) && name != "" {
		err = fmt.Errorf("%w: names are relative to %s and stay in it", err, f.dir)
	}
	*failed = fmt.Errorf("%s %.200q in %s: %w", operation, name, f.dir, err)
}

// Read returns the content of a file, which must be UTF-8 text of at most 10 MiB.
func (f *Files) Read(ctx context.Context, name string) (content string, err error) {
	defer f.wrap("read", name, &err)
	file, _, err := f.open(ctx, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > MaxFile:
		return "", fmt.Errorf("it has more than %d bytes", MaxFile)
	}
	return text("it", data)
}

// open opens a regular file. It does not block if the file has become a pipe meanwhile.
func (f *Files) open(ctx context.Context, name string, flags int) (*os.File, fs.FileInfo, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if info, err := f.root.Stat(name); err == nil { // opening a device can have effects
		if err := checkRegular(info); err != nil {
			return nil, nil, err
		}
	}
	file, err := f.root.OpenFile(name, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkRegular(info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func checkRegular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return syscall.EISDIR
	}
	return fmt.Errorf("not a regular file (%v)", info.Mode().Type())
}

// Write replaces the content of a file atomically: if it fails, the old content stays. The
// directory must exist. An existing file keeps its permissions, a new one gets 0644 less the
// umask. A symbolic link is replaced, not followed.
func (f *Files) Write(ctx context.Context, name, content string) (err error) {
	defer f.wrap("write", name, &err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(content) > MaxFile {
		return tooLarge(content)
	}
	mode := fs.FileMode(0)
	info, err := f.root.Lstat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		mode = info.Mode().Perm()
		if mode&0o200 == 0 {
			return fs.ErrPermission // rename does not check it
		}
	case err == nil && info.Mode().Type() != fs.ModeSymlink:
		return checkRegular(info)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if base := filepath.Base(name); base == "." || base == ".." || name[len(name)-1] == '/' {
		return errors.New("not a file name")
	}
	tmp := filepath.Join(filepath.Dir(name), ".sage-"+rand.Text())
	file, err := f.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.root.Remove(tmp)
		}
	}()
	_, err = file.WriteString(content)
	if err == nil && mode != 0 {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync() // otherwise a power failure may leave an empty file
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f.root.Rename(tmp, name)
}

func tooLarge(content string) error {
	return fmt.Errorf("the content has %d bytes, at most %d are written at a time", len(content), MaxFile)
}

// Append appends to a file, which is created if it is missing. Concurrent appends do not mix.
func (f *Files) Append(ctx context.Context, name, content string) (err error) {
	defer f.wrap("append to", name, &err)
	if len(content) > MaxFile {
		return tooLarge(content)
	}
	file, before, err := f.open(ctx, name, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	n, err := file.WriteString(content)
	if err != nil && n > 0 {
		err = fmt.Errorf("%w, after %d of %d bytes; it had %d before", err, n, len(content), before.Size())
	}
	return errors.Join(err, file.Close())
}

// Exists reports whether a file or directory exists.
func (f *Files) Exists(ctx context.Context, name string) (exists bool, err error) {
	defer f.wrap("look for", name, &err)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	_, err = f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List returns at most 100,000 names in a directory, sorted. "" and "." are the root directory.
func (f *Files) List(ctx context.Context, name string) (names []string, err error) {
	defer f.wrap("list", name, &err)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	dir, err := f.root.OpenFile(cmp.Or(name, "."), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err = dir.Readdirnames(maxNames + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(names) > maxNames:
		return nil, fmt.Errorf("it contains more than %d names", maxNames)
	}
	slices.Sort(names)
	return names, nil
}

// Delete deletes an existing file, symbolic link or empty directory.
func (f *Files) Delete(ctx context.Context, name string) (err error) {
	defer f.wrap("delete", name, &err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case filepath.Clean(name) == ".":
		return errors.New("the root directory cannot be deleted")
	}
	return f.root.Remove(name)
}

// Mkdir creates a directory and its parents. It may exist.
func (f *Files) Mkdir(ctx context.Context, name string) (err error) {
	defer f.wrap("make the directory", name, &err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.root.MkdirAll(name, 0o755)
}
