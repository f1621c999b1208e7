package project

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// Location is the place of a store that can be copied: a SQLite file, or a prefix of keys in etcd.
type Location struct {
	file string // absolute; "" for etcd
	own  bool   // the store that [persistence] names
	etcd etcd.Location
}

// LocationError reports that a text names no location.
type LocationError struct{ Text, Problem string }

func (e *LocationError) Error() string {
	return fmt.Sprintf("%s is no store: %s", spec.Quote(e.Text), e.Problem)
}

const (
	sqliteScheme = "sqlite"
	locations    = "sqlite, sqlite:FILE or etcd://HOST[:PORT][,...][/PREFIX]"
)

// Locate returns the location that a text names: "sqlite" for the database of the project,
// "sqlite:FILE", or a URL of etcd, see etcd.ParseLocation. The names of files are relative to the
// working directory. The error is a *LocationError.
func (p Project) Locate(text string) (Location, error) {
	problem := func(format string, args ...any) (Location, error) {
		return Location{}, &LocationError{etcd.WithoutPassword(text), fmt.Sprintf(format, args...)}
	}
	file, isFile := strings.CutPrefix(text, sqliteScheme+":")
	switch {
	case text == sqliteScheme && p.Database() == "":
		return problem("the state of this project is in memory, as [persistence] says, and ends with the daemon")
	case text == sqliteScheme:
		return Location{file: p.Database(), own: true}, nil
	case etcd.IsLocation(text):
		l, err := etcd.ParseLocation(text)
		if err != nil {
			return problem("%v", err)
		}
		dir, err := os.Getwd()
		if err != nil {
			return problem("%v", err)
		}
		return Location{etcd: l.In(dir)}, nil
	case !isFile:
		hint := ""
		if _, err := os.Lstat(text); err == nil {
			hint = "; for the file write " + sqliteScheme + ":" + plaintext.Line(text)
		}
		return problem("expected %s%s", locations, hint)
	case file == "" || strings.HasSuffix(file, "/") || strings.ContainsRune(file, 0):
		return problem("expected the name of a file after %s:", sqliteScheme)
	case file == ":memory:" || strings.HasPrefix(file, "file:"):
		return problem("expected the name of a file after %s:, not what SQLite calls one", sqliteScheme)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return problem("%v", err)
	}
	l := Location{file: file}
	l.own = p.Database() != "" && l.Same(Location{file: p.Database()})
	return l, nil
}

// String returns the text that names the location everywhere.
func (l Location) String() string {
	if l.file != "" {
		return sqliteScheme + ":" + l.file
	}
	return l.etcd.String()
}

// InEtcd reports whether the store is not a file.
func (l Location) InEtcd() bool { return l.file == "" }

// Same reports whether two locations are certainly the same one. Another name of a host is not
// recognised.
func (l Location) Same(other Location) bool {
	if l.file == "" || other.file == "" {
		return l.file == other.file && l.etcd.Same(other.etcd)
	}
	if realPath(l.file) == realPath(other.file) {
		return true
	}
	a, err := os.Stat(l.file)
	if err != nil {
		return false
	}
	b, err := os.Stat(other.file)
	return err == nil && os.SameFile(a, b)
}

// realPath resolves symbolic links, if only the file itself may be missing.
func realPath(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Setting returns the lines of coppice.toml with which a daemon uses the location. There are none for
// the store that it uses already.
func (l Location) Setting() []string {
	if l.own || l.file == "" {
		return nil
	}
	return []string{"[persistence]", "path = " + strconv.Quote(l.file)}
}

// Copyable is an open store that can be copied from and to.
type Copyable interface {
	transfer.Target
	Close() error
}

// Open opens the store at a location. The error is an fs.ErrNotExist if a file is missing.
func (l Location) Open(ctx context.Context) (Copyable, error) {
	if l.file == "" {
		return etcd.Open(ctx, l.etcd, slog.Default())
	}
	if !sqlite.Exists(l.file) {
		return nil, fmt.Errorf("reading %v: %w", l, os.ErrNotExist)
	}
	return openFile(ctx, l.file)
}

// Create opens the store at a location, or creates it. After it was closed, discard removes what
// Create has made.
func (l Location) Create(ctx context.Context) (s Copyable, discard func() error, err error) {
	discard = func() error { return nil }
	if l.file == "" {
		s, err = etcd.Open(ctx, l.etcd, slog.Default())
		return s, discard, err
	}
	if l.own {
		if err := makeStoreDir(l.file); err != nil {
			return nil, nil, err
		}
	}
	if !sqlite.Exists(l.file) {
		discard = func() error { return sqlite.Remove(l.file) }
	}
	if s, err = openFile(ctx, l.file); err != nil {
		return nil, nil, err
	}
	return s, discard, nil
}

func openFile(ctx context.Context, file string) (Copyable, error) {
	s, err := sqlite.Open(ctx, file)
	if errors.Is(err, sqlite.ErrInUse) {
		return nil, fmt.Errorf("%w; stop the daemon that keeps its state there", err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
