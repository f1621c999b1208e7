package tools

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func database(t *testing.T, address, dir string) *Database {
	t.Helper()
	d, err := OpenDatabase(bounded(t), address, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// one is the value of a query that gives one.
func one(t *testing.T, d *Database, statement string, args ...any) any {
	t.Helper()
	rows, err := d.Query(bounded(t), statement, args...)
	if err != nil || len(rows) != 1 || len(rows[0].Values) != 1 {
		t.Fatalf("%s: %v, %v", statement, rows, err)
	}
	return rows[0].Values[0]
}

func TestDatabase(t *testing.T) {
	d, ctx := database(t, "sqlite::memory:", ""), bounded(t)
	n, err := d.Execute(ctx, "CREATE TABLE t (i INTEGER, r REAL, s TEXT, b BLOB, d DATE, at DATETIME, y BOOLEAN); INSERT INTO t (i) VALUES (1), (2); DELETE FROM t WHERE i = 1")
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	hostile := "'); DROP TABLE t; -- \x00 é"
	n, err = d.Execute(ctx, "INSERT INTO t VALUES (?, ?, ?, ?, '2024-02-29', '2024-02-29T12:30:00.5Z', ?)", int64(1)<<62, 0.5, hostile, []byte{0, 255}, true)
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	rows, err := d.Query(ctx, "SELECT *, ?1 AS x FROM t ORDER BY i", nil)
	if err != nil {
		t.Fatal(err)
	}
	columns := []string{"i", "r", "s", "b", "d", "at", "y", "x"}
	want := []Row{
		{columns, []any{int64(2), nil, nil, nil, nil, nil, nil, nil}},
		{columns, []any{int64(1) << 62, 0.5, hostile, []byte{0, 255}, "2024-02-29", "2024-02-29 12:30:00.5", int64(1), nil}},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%#v\nwant %#v", rows, want)
	}
	if rows, err := d.Query(ctx, "SELECT i FROM t WHERE i = ?", 7); len(rows) != 0 || err != nil {
		t.Errorf("%v, %v", rows, err)
	}
	if now := one(t, d, "SELECT CURRENT_TIMESTAMP"); len(now.(string)) != len(time.DateTime) {
		t.Error(now)
	}
}

// What one opens, another sees, also after a restart.
func TestDatabaseFile(t *testing.T) {
	dir := t.TempDir()
	for i, address := range []string{"sqlite:a b?mode=rwc", "sqlite://a b", "a b", "sqlite:" + dir + "/a b", "sqlite:./a b?mode=rw"} {
		d := database(t, address, dir)
		_, err := d.Execute(bounded(t), "CREATE TABLE IF NOT EXISTS t (i); INSERT INTO t VALUES (1)")
		must(t, err)
		if n := one(t, d, "SELECT count(*) FROM t"); n != int64(i+1) {
			t.Errorf("%s: %v", address, n)
		}
	}
	d := database(t, "sqlite:a b?mode=ro", dir)
	_, err := d.Execute(bounded(t), "DELETE FROM t")
	refused(t, "read only", err, "readonly")
	for _, name := range []string{"100%.db", "a#b", "é"} {
		database(t, "sqlite:"+name, dir)
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestDatabaseRefusesToOpen(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/text", []byte(strings.Repeat("this is no database\n", 1000)), 0o644))
	for address, want := range map[string]string{
		"postgres://u:hunter2@h/d": `there is no driver for "postgres" databases, only for SQLite: want sqlite::memory: or sqlite:PATH`,
		"mysql:x":                  `"mysql"`,
		"":                         "has no path",
		"sqlite:":                  "has no path",
		"sqlite:?mode=ro":          "has no path",
		"sqlite:a\x00b":            "has no path",
		"sqlite:a?_pragma=x":       `the option "_pragma=x"`,
		"sqlite:a?mode=memory":     `the option "mode=memory"`,
		"sqlite:a?mode=ro&mode=rw": "the option",
		"sqlite:a?%zz":             "cannot be read",
		"sqlite:no?mode=rw":        "unable to open",
		"sqlite:no/directory/a":    "unable to open",
		"sqlite:text":              "not a database",
		"sqlite:" + dir:            "unable to open",
	} {
		d, err := OpenDatabase(bounded(t), address, dir)
		if err == nil {
			d.Close()
		}
		refused(t, address, err, want)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %v", err)
		}
	}
}

func TestDatabaseRefuses(t *testing.T) {
	dir := t.TempDir()
	d, ctx := database(t, "sqlite:a.db", dir), bounded(t)
	_, err := d.Execute(ctx, "CREATE TABLE t (i)")
	must(t, err)
	database(t, "sqlite:other.db", dir)
	for statement, want := range map[string]string{
		"SELEC":                                `"SELEC": `,
		"SELECT * FROM":                        "incomplete input",
		"ATTACH '" + dir + "/other.db' AS o":   "not authorized",
		"VACUUM INTO '" + dir + "/copy.db'":    "authorization denied",
		"PRAGMA hard_heap_limit = 1":           "not authorized",
		"PRAGMA Writable_Schema = 1":           "not authorized",
		"SELECT load_extension('/tmp/x.so')":   "not authorized",
		"INSERT INTO sqlite_schema VALUES (1)": "may not be modified",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n":                      "more than 100000 rows or 10485760 bytes: ask for less, with WHERE or LIMIT",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hex(zeroblob(1000000)) FROM n": "more than 100000 rows or 10485760 bytes",
		"SELECT zeroblob(1000000000)":           "too big",
		"SELECT hex(zeroblob(9000000))":         "too big",
		"SELECT 1" + strings.Repeat(" ", 1<<20): "the statement has 1048584 bytes, at most 1048576 are run: give values as arguments",
		"SELECT ?, ?":                           "missing argument",
	} {
		_, err := d.Query(bounded(t), statement)
		refused(t, statement[:min(len(statement), 100)], err, want)
	}
	_, err = d.Query(ctx, "SELECT ?", time.Now())
	refused(t, "argument", err, "argument 1 is a time.Time: want text, a number, true, false or nothing")
	_, err = d.Execute(ctx, "INSERT INTO t VALUES (?)", strings.Repeat("x", MaxResult+1))
	refused(t, "a large argument", err, "too big")
	if n := one(t, d, "SELECT count(*) FROM t"); n != int64(0) {
		t.Errorf("%v rows", n)
	}
	if _, err := os.Stat(dir + "/copy.db"); err == nil {
		t.Error("another file was written")
	}
	if _, err := d.Query(stopped(), "SELECT 1"); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	must(t, d.Close())
	_, err = d.Query(ctx, "SELECT 1")
	refused(t, "closed", err, "closed")
}

// A statement ends with its context, and the transaction with it; the database
// can be used on, also one that is in memory only.
func TestDatabaseIsInterrupted(t *testing.T) {
	for _, address := range []string{"sqlite::memory:", "sqlite:a.db"} {
		d := database(t, address, t.TempDir())
		_, err := d.Execute(bounded(t), "CREATE TABLE t (i); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2)")
		must(t, err)
		if n := one(t, d, "SELECT count(*) FROM t"); n != int64(2) {
			t.Errorf("%s: %v rows in the transaction", address, n)
		}
		ctx, cancel := context.WithCancelCause(bounded(t))
		time.AfterFunc(50*time.Millisecond, func() { cancel(errStopped) })
		_, err = d.Query(ctx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
		if !errors.Is(err, errStopped) {
			t.Errorf("%s: %v", address, err)
		}
		if n := one(t, d, "SELECT count(*) FROM t"); n != int64(1) {
			t.Errorf("%s: %v rows after it", address, n)
		}
		_, err = d.Execute(bounded(t), "BEGIN; INSERT INTO t VALUES (2); COMMIT")
		must(t, err)
	}
}

// Agents with connections of their own wait for each other.
func TestDatabaseIsShared(t *testing.T) {
	dir := t.TempDir()
	_, err := database(t, "a.db", dir).Execute(bounded(t), "CREATE TABLE t (i); INSERT INTO t VALUES (0)")
	must(t, err)
	var all sync.WaitGroup
	for range 4 {
		d := database(t, "a.db", dir)
		all.Go(func() {
			for range 10 {
				if _, err := d.Execute(context.Background(), "UPDATE t SET i = i + 1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := one(t, database(t, "a.db", dir), "SELECT i FROM t"); n != int64(40) {
		t.Errorf("%v", n)
	}
}

func FuzzDatabaseAddress(f *testing.F) {
	for _, s := range []string{"sqlite:a", "sqlite://a?mode=ro", "sqlite::memory:", "a?mode=rw&x", "postgres://h", "sqlite:a?_pragma=1", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		dsn, err := parseDatabase(address, "/dir")
		if err != nil {
			return
		}
		path, options, _ := strings.Cut(dsn, "?")
		q, err := url.ParseQuery(options)
		if err != nil || path != ":memory:" && !strings.HasPrefix(path, "file:///") {
			t.Fatalf("%q: %q, %v", address, dsn, err)
		}
		delete(q, "mode")
		if len(q) != 2 || len(q["_pragma"]) != 3 || len(q["_defensive"]) != 1 {
			t.Fatalf("%q: %q has other options", address, dsn)
		}
	})
}
