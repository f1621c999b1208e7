// Package opencodetest writes databases as opencode does, for tests.
package opencodetest

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver; no cgo
)

// Name is the name of the file.
const Name = "opencode.db"

//go:embed schema.sql
var schema string

// DB is a database that is open for writing.
type DB struct {
	t testing.TB
	c *sql.Conn
	// Close closes it. Then SQLite has removed the write-ahead log.
	Close func()
}

// New makes a database in a directory. It is closed when the test ends.
func New(t testing.TB, dir string) *DB {
	t.Helper()
	d := Open(t, dir)
	d.Exec("PRAGMA journal_mode = wal")
	d.Exec(schema)
	return d
}

// Open opens a database in a directory, as another process does.
func Open(t testing.TB, dir string) *DB {
	t.Helper()
	u := url.URL{Scheme: "file", Path: filepath.Join(dir, Name), RawQuery: "_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{t: t, c: c, Close: func() {
		c.Close()
		db.Close()
	}}
	t.Cleanup(d.Close)
	return d
}

// Exec executes statements.
func (d *DB) Exec(query string, args ...any) {
	d.t.Helper()
	if _, err := d.c.ExecContext(context.Background(), query, args...); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
}

// Session adds a session in a working directory. parent is empty for one that no other session has begun. Times are
// in milliseconds since 1970.
func (d *DB) Session(id, parent, dir string, created int64) {
	d.t.Helper()
	d.Exec(`INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)
		VALUES (?, 'global', nullif(?, ''), 's', ?, 't', '1.18.33', ?, ?)`, id, parent, dir, created, created)
}

// Message adds or updates a message. data is JSON.
func (d *DB) Message(id, session string, created int64, data string) {
	d.t.Helper()
	d.Exec(`INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT DO UPDATE SET data = ?4`,
		id, session, created, data)
}

// User adds a message of a user.
func (d *DB) User(id, session string, created int64) {
	d.t.Helper()
	d.Message(id, session, created, `{"role":"user","agent":"build"}`)
}

// Assistant adds a message of a model.
func (d *DB) Assistant(id, session string, created int64) {
	d.t.Helper()
	d.Message(id, session, created, `{"role":"assistant","modelID":"model","providerID":"local","cost":0,`+
		`"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}`)
}

// Part adds or updates a part of a message. data is JSON.
func (d *DB) Part(id, message string, data any) {
	d.t.Helper()
	d.Exec(`INSERT INTO part SELECT ?1, id, session_id, ?4, ?4, ?3 FROM message WHERE id = ?2
		ON CONFLICT DO UPDATE SET data = ?3`, id, message, data, partTime)
}

// partTime is that of all parts: it may be any, and that of a copy is new.
const partTime = 1 << 42

// Step adds the end of a step that has used input and output, and a step that was read from a cache.
func (d *DB) Step(id, message string, input, output int) {
	d.t.Helper()
	d.Part(id, message, fmt.Sprintf(`{"reason":"stop","type":"step-finish","tokens":{"total":0,"input":%d,"output":%d,`+
		`"reasoning":0,"cache":{"write":0,"read":7}},"cost":0.5}`, input, output))
}
