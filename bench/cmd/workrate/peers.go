//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite" // the driver of all
)

// openDB opens a file as coppice does it: what was committed survives a loss of
// power. All have one connection, so that none meets a locked file.
func openDB(dir string) (*sql.DB, error) {
	settings := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(full)", "journal_mode(wal)",
		"wal_autocheckpoint(4000)", "cache_size(-16384)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.Join(dir, "queue.db")}).String()+"?"+
		settings.Encode())
	if err == nil {
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
	}
	return db, err
}

// raw is SQLite alone: a statement, and with it a commit, for each step.
type raw struct {
	db                 *sql.DB
	insert, take, over *sql.Stmt
}

func openRaw(ctx context.Context, dir string) (queue, error) {
	db, err := openDB(dir)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE task (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, worker INTEGER, title TEXT NOT NULL, body TEXT NOT NULL);
		CREATE INDEX ready ON task (id) WHERE state = 0`)
	q := &raw{db: db}
	for to, query := range map[**sql.Stmt]string{
		&q.insert: `INSERT INTO task (state, title, body) VALUES (0, ?, ?)`,
		&q.take: `UPDATE task SET state = 1, worker = ? WHERE id = (SELECT id FROM task INDEXED BY ready WHERE ` +
			`state = 0 ORDER BY id LIMIT 1) RETURNING id`,
		&q.over: `UPDATE task SET state = 2 WHERE id = ?`,
	} {
		if err == nil {
			*to, err = db.PrepareContext(ctx, query)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *raw) add(ctx context.Context, _ int) error {
	_, err := q.insert.ExecContext(ctx, title, text)
	return err
}

func (q *raw) do(ctx context.Context, worker int) (bool, error) {
	var id int64
	if err := q.take.QueryRowContext(ctx, worker).Scan(&id); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return false, err
	}
	_, err := q.over.ExecContext(ctx, id)
	return true, err
}

func (q *raw) close() error { return q.db.Close() }

// viaGoqite receives a message, and deletes it.
type viaGoqite struct {
	db *sql.DB
	q  *goqite.Queue
}

// openGoqite makes the tables with what goqite has next to its code for that.
func openGoqite(ctx context.Context, dir, schema string) (queue, error) {
	tables, err := os.ReadFile(schema)
	if err != nil {
		return nil, err
	}
	db, err := openDB(dir)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, string(tables)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &viaGoqite{db, goqite.New(goqite.NewOpts{DB: db, Name: "work", Timeout: time.Hour})}, nil
}

func (q *viaGoqite) add(ctx context.Context, _ int) error {
	return q.q.Send(ctx, goqite.Message{Body: []byte(title + "\n" + text)})
}

func (q *viaGoqite) do(ctx context.Context, _ int) (bool, error) {
	m, err := q.q.Receive(ctx)
	if m == nil || err != nil {
		return false, err
	}
	return true, q.q.Delete(ctx, m.ID)
}

func (q *viaGoqite) close() error { return q.db.Close() }
