package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/local"
)

// OpenWaiting is Open for when the disk is too full for that. What is in the file can be
// read, and writes are refused with store.ErrFull until Maintain finds room; from then on
// it is an open store. A file whose log was not folded into it cannot be read that way.
func OpenWaiting(ctx context.Context, path string) (*Store, error) {
	return locked(ctx, path, openWaiting)
}

func openWaiting(ctx context.Context, path string) (*Store, error) {
	if err := checkPresent(path); err != nil {
		return nil, err
	}
	full := fmt.Errorf("opening the store %s: %w", path, store.ErrFull)
	w := newUnopenedWriter(path)
	w.refused = full
	w.mark = &mark{path: path + markSuffix}
	var readers *sql.DB
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Size() == 0: // new
	case err != nil:
		return nil, fmt.Errorf("opening the store: %w", err)
	default:
		if log, err := os.Lstat(path + "-wal"); err == nil && log.Size() > 0 {
			return nil, full
		}
		if readers, err = openWithoutLog(ctx, w); err != nil {
			return nil, err
		}
	}
	w.history = local.NewHistory(w.rev)
	s := newStore(w, readers)
	s.own = files{}
	go w.loop()
	return s, nil
}

// openImmutable opens a file that has no other user and is not changed, without its log and its index.
func openImmutable(path string) (*sql.DB, error) {
	return sql.Open("sqlite", dsn(path, "query_only(1)")+"&mode=ro&immutable=1")
}

// openWithoutLog opens a file without writers for reading, without its log and its index.
func openWithoutLog(ctx context.Context, w *writer) (*sql.DB, error) {
	db, err := openImmutable(w.path)
	if err != nil {
		return nil, err
	}
	version, err := check(ctx, db, w.path)
	if err == nil && version < len(migrations) {
		err = fmt.Errorf("the store is of an older version, and there is no room to bring it up to date: %w",
			store.ErrFull)
	}
	if err == nil {
		w.id, w.rev, err = readState(ctx, db)
	}
	if err == nil {
		err = checkReached(w.path, w.id, w.rev)
	}
	if err != nil {
		return nil, errors.Join(diagnose(w.path, "opening", err), db.Close())
	}
	return db, nil
}

// Waiting is why a store that was opened by OpenWaiting takes no writes yet, nil if it does.
func (s *Store) Waiting() error {
	if s.writer == nil { // opened by OpenReadOnly
		return nil
	}
	s.writer.busy.Lock()
	defer s.writer.busy.Unlock()
	return s.writer.refused
}

// finishOpening makes an open store of one that waited, if there is room by now.
func (s *Store) finishOpening(ctx context.Context) error {
	if err := prepareFile(s.path); err != nil {
		return err
	}
	old := s.readers
	if err := s.reopen(ctx); err != nil {
		return err
	}
	s.writer.refused = nil
	if old != nil {
		return old.Close()
	}
	return nil
}
