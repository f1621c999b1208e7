package tools

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// Database is one connection to a SQLite database. Statements run one after the other, so BEGIN
// and COMMIT work as usual; callers that share a Database share its transaction. An open
// transaction is rolled back by Close and when the context of one of its statements ends.
//
// No statement can reach another file than that of the database: ATTACH and VACUUM INTO are
// refused, and so are pragmas for the whole process.
type Database struct {
	db   *sql.DB
	name string
}

// Row is one row of a query result.
type Row struct {
	Columns []string // the same slice in all rows
	// Values are nil, int64, float64, string or []byte. Text in a column declared DATE, DATETIME
	// or TIMESTAMP has the form of SQLite's functions: 2006-01-02 (DATE), 2006-01-02 15:04:05.
	Values []any
}

// statementTime bounds a statement including the reading of its rows.
const statementTime = 5 * time.Minute

// maxStatement bounds the length of a statement in bytes.
const maxStatement = 1 << 20

// OpenDatabase opens a database. The address is "sqlite:path", "sqlite:path?mode=ro" (or rw, which
// does not create it) or a bare path, relative to dir. "sqlite::memory:" is a database that ends
// with Close. A missing file is created in an existing directory.
func OpenDatabase(ctx context.Context, address, dir string) (*Database, error) {
	dsn, err := parseDatabase(address, dir)
	if err != nil {
		return nil, err
	}
	d := new(sqlite.Driver) // not the registered one, whose connections belong to the stores
	d.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
		r, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("the driver has no authorizer")
		}
		return r.RegisterAuthorizer(authorize)
	})
	db := sql.OpenDB(connector{d, dsn})
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	db.SetConnMaxLifetime(0)
	opened := &Database{db, address}
	if _, err := opened.Query(ctx, "SELECT count(*) FROM sqlite_schema"); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the database %.200q: %w", address, errors.Unwrap(err))
	}
	return opened, nil
}

// connector opens connections of an unregistered driver.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// parseDatabase converts an address to a data source name.
func parseDatabase(address, dir string) (string, error) {
	path, isSQLite := strings.CutPrefix(address, "sqlite:")
	if !isSQLite {
		if scheme, _, ok := strings.Cut(address, ":"); ok && !strings.ContainsAny(scheme, "/.") {
			return "", fmt.Errorf("there is no driver for %.40q databases, only for SQLite: want "+
				"sqlite::memory: or sqlite:PATH", scheme)
		}
	}
	path = strings.TrimPrefix(path, "//")
	query := url.Values{"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "trusted_schema(0)"}, "_defensive": {"1"}}
	if path == ":memory:" {
		return ":memory:?" + query.Encode(), nil
	}
	path, options, _ := strings.Cut(path, "?")
	given, err := url.ParseQuery(options)
	if err != nil {
		return "", fmt.Errorf("the options of the database %.200q cannot be read: %w", address, err)
	}
	for name, values := range given {
		if name != "mode" || len(values) != 1 || !slices.Contains([]string{"ro", "rw", "rwc"}, values[0]) {
			return "", fmt.Errorf("the option %.80q of the database is not known: want mode=ro, mode=rw or mode=rwc",
				name+"="+strings.Join(values, ","))
		}
		query.Set(name, values[0])
	}
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", fmt.Errorf("the database %.200q has no path: want sqlite::memory: or sqlite:PATH", address)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: path}).String() + "?" + query.Encode(), nil
}

// authorize restricts statements to the opened file and the connection.
func authorize(action sqlite.AuthorizerActionCode, arg1, _, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthAttach, sqlite.AuthDetach:
		return sqlite.AuthorizerDeny
	case sqlite.AuthPragma:
		switch strings.ToLower(arg1) {
		case "hard_heap_limit", "soft_heap_limit", "temp_store_directory", "data_store_directory", "writable_schema",
			"mmap_size", "cache_size":
			return sqlite.AuthorizerDeny
		}
	}
	return sqlite.AuthorizerOK
}

// Close closes the connection.
func (d *Database) Close() error { return d.db.Close() }

// Query runs a statement with arguments for its ? placeholders and returns at most 100,000 rows
// and 10 MiB of values; more is an error. Arguments are nil, bool, int, int64, float64, string or
// []byte.
func (d *Database) Query(ctx context.Context, statement string, args ...any) ([]Row, error) {
	var rows []Row
	err := d.use(ctx, statement, args, func(ctx context.Context, c *sql.Conn) (err error) {
		rows, err = query(ctx, c, statement, args)
		return err
	})
	return rows, err
}

// Execute runs statements separated by semicolons. It returns the number of rows that the last
// changing statement has changed.
func (d *Database) Execute(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	err = d.use(ctx, statement, args, func(ctx context.Context, c *sql.Conn) error {
		r, err := c.ExecContext(ctx, statement, args...)
		if err == nil {
			affected, err = r.RowsAffected()
		}
		return err
	})
	return affected, err
}

// use calls f with the connection for a bounded time.
func (d *Database) use(ctx context.Context, statement string, args []any,
	f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, statementTime, fmt.Errorf("it took longer than %v", statementTime))
	defer cancel()
	err := checkStatement(statement, args)
	if err == nil {
		var c *sql.Conn
		if c, err = d.db.Conn(ctx); err == nil {
			// SQLite makes a value before it returns it. This also bounds stored values.
			const lengthLimit = 0 // SQLITE_LIMIT_LENGTH
			if _, err = sqlite.Limit(c, lengthLimit, MaxResult); err == nil {
				err = f(ctx, c)
			}
			if ctx.Err() != nil {
				// The next caller must not find half of a transaction.
				c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			}
			err = errors.Join(err, c.Close())
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%.200q: %w", strings.Join(strings.Fields(statement), " "), err)
}

func checkStatement(statement string, args []any) error {
	if len(statement) > maxStatement {
		return fmt.Errorf("the statement has %d bytes, at most %d are run: give values as arguments", len(statement),
			maxStatement)
	}
	for i, a := range args {
		switch a.(type) {
		case nil, bool, int, int64, float64, string, []byte:
		default:
			return fmt.Errorf("argument %d is a %T: want text, a number, true, false or nothing", i+1, a)
		}
	}
	return nil
}

func query(ctx context.Context, c *sql.Conn, statement string, args []any) (all []Row, err error) {
	rows, err := c.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	columns := make([]string, len(types))
	for i, t := range types {
		columns[i] = t.Name()
	}
	size := 0
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range into {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, v := range values {
			if t, ok := v.(time.Time); ok {
				values[i] = formatTime(t, types[i].DatabaseTypeName())
			}
			size += sizeOf(values[i])
		}
		if len(all) == MaxRows || size > MaxResult {
			return nil, fmt.Errorf("the answer has more than %d rows or %d bytes: ask for less, with WHERE or LIMIT",
				MaxRows, MaxResult)
		}
		all = append(all, Row{columns, values})
	}
	return all, rows.Err()
}

// sizeOf returns the approximate size of a value in bytes.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return 16 + len(v)
	case []byte:
		return 16 + len(v)
	}
	return 16
}

// formatTime writes a time as SQLite does. The driver has parsed it from text.
func formatTime(t time.Time, declared string) string {
	if strings.EqualFold(declared, "DATE") && t.Equal(t.Truncate(24*time.Hour)) {
		return t.Format(time.DateOnly)
	}
	layout := "2006-01-02 15:04:05.999999999"
	if _, offset := t.Zone(); offset != 0 {
		layout += "-07:00"
	}
	return t.Format(layout)
}
