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

// OpenWaiting opens a store when the disk is too full for Open. Its records can be read, and
// writes fail with store.ErrFull until Maintain finds room; from then on the store works
// normally. A file with a log that was not checkpointed cannot be opened this way.
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

// openImmutable opens a file that has no other user and does not change, without its log and its
// index.
func openImmutable(path string) (*sql.DB, error) {
	return sql.Open("sqlite", dsn(path, "query_only(1)")+"&mode=ro&immutable=1")
}

// openWithoutLog opens for reading a file that nothing writes to, without its log.
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

// Waiting returns the reason why a store that was opened by OpenWaiting does not accept writes
// yet, or nil.
func (s *Store) Waiting() error {
	if s.writer == nil { // opened by OpenReadOnly
		return nil
	}
	s.writer.busy.Lock()
	defer s.writer.busy.Unlock()
	return s.writer.refused
}

// finishOpening opens a store that was waiting for room, if there is enough by now.
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
