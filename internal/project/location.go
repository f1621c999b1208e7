package project

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// Location is the place of a store that can be copied: a SQLite file, or a prefix of keys in etcd.
type Location struct {
	file      string   // absolute; "" for etcd
	own       bool     // the store that [persistence] names
	endpoints []string // of etcd, each HOST:PORT
	prefix    string   // in etcd; "" for the default
}

// LocationError reports that a text names no location.
type LocationError struct{ Text, Problem string }

func (e *LocationError) Error() string {
	return fmt.Sprintf("%s is no store: %s", spec.Quote(e.Text), e.Problem)
}

const (
	sqliteScheme = "sqlite"
	etcdScheme   = "etcd://"
	locations    = "sqlite, sqlite:FILE or etcd://HOST:PORT[,HOST:PORT...][/PREFIX]"
)

// Locate returns the location that a text names: "sqlite" for the database of the project,
// "sqlite:FILE", or "etcd://HOST:PORT[,HOST:PORT...][/PREFIX]". A FILE is relative to the working
// directory. The error is a *LocationError.
func (p Project) Locate(text string) (Location, error) {
	problem := func(format string, args ...any) (Location, error) {
		return Location{}, &LocationError{text, fmt.Sprintf(format, args...)}
	}
	file, isFile := strings.CutPrefix(text, sqliteScheme+":")
	address, isEtcd := strings.CutPrefix(text, etcdScheme)
	switch {
	case text == sqliteScheme && p.Database() == "":
		return problem("the state of this project is in memory, as [persistence] says, and ends with the daemon")
	case text == sqliteScheme:
		return Location{file: p.Database(), own: true}, nil
	case isEtcd:
		return locateEtcd(text, address)
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

// locateEtcd reads the endpoints and the prefix of a URL.
func locateEtcd(text, address string) (l Location, err error) {
	hosts, prefix, slash := strings.Cut(address, "/")
	problem := ""
	switch {
	case strings.ContainsAny(address, "?#"):
		problem = "there is nothing after the prefix"
	case strings.Contains(hosts, "@"):
		problem = "the address has no user and password"
	case slash && store.CheckKey(prefix) != nil:
		problem = fmt.Sprintf("the prefix is wrong: %v", store.CheckKey(prefix))
	}
	for endpoint := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(endpoint)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if bad := strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }); problem == "" &&
			(err != nil || portErr != nil || n == 0 || host == "" || bad) {
			problem = fmt.Sprintf("%s is no address, expected HOST:PORT", spec.Quote(endpoint))
		}
		l.endpoints = append(l.endpoints, net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10)))
	}
	if problem != "" {
		return Location{}, &LocationError{text, problem + "; the form is " + etcdScheme +
			"HOST:PORT[,HOST:PORT...][/PREFIX]"}
	}
	l.prefix = prefix
	return l, nil
}

// String returns the text that names the location everywhere.
func (l Location) String() string {
	if l.file != "" {
		return sqliteScheme + ":" + l.file
	}
	text := etcdScheme + strings.Join(l.endpoints, ",")
	if l.prefix != "" {
		text += "/" + l.prefix
	}
	return text
}

// Same reports whether two locations are certainly the same one. Another name of a host is not
// recognised.
func (l Location) Same(other Location) bool {
	if l.file == "" || other.file == "" {
		return l.file == other.file && l.prefix == other.prefix &&
			slices.ContainsFunc(l.endpoints, func(e string) bool { return slices.Contains(other.endpoints, e) })
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
		return openEtcd(ctx, l)
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
		s, err = openEtcd(ctx, l)
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

// openEtcd opens the store at a prefix in etcd.
func openEtcd(_ context.Context, l Location) (Copyable, error) {
	return nil, fmt.Errorf("opening %v: %w", l, errNoEtcd)
}

var errNoEtcd = errors.New("this version of coppice keeps state in SQLite alone")
