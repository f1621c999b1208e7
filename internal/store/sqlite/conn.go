package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/store/local"
)

// conn is the writing connection with its prepared statements. One statement for many rows is
// much cheaper than many for one.
type conn struct {
	*sql.Conn
	putRows                  []putStmt // largest first
	deleteRow, getRev        *sql.Stmt
	getSequence, setSequence *sql.Stmt
	getMeta, setMeta         *sql.Stmt
	begin, commit            *sql.Stmt
	stmts                    []*sql.Stmt
}

// columns is the number of columns of a record.
const columns = 4

type putStmt struct {
	rows int
	stmt *sql.Stmt
}

func newConn(ctx context.Context, db *sql.DB) (*conn, error) {
	c := &conn{}
	var err error
	if c.Conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	prepare := func(query string) *sql.Stmt {
		stmt, prepareErr := c.PrepareContext(ctx, query)
		if prepareErr != nil {
			err = errors.Join(err, prepareErr)
		} else {
			c.stmts = append(c.stmts, stmt)
		}
		return stmt
	}
	for _, rows := range []int{64, 8, 1} {
		values := strings.TrimSuffix(strings.Repeat("(?,?,?,?),", rows), ",")
		c.putRows = append(c.putRows, putStmt{rows,
			prepare(`INSERT OR REPLACE INTO record (key, value, rev, sum) VALUES ` + values)})
	}
	c.deleteRow = prepare(`DELETE FROM record WHERE key = ?`)
	c.getRev = prepare(`SELECT rev FROM record WHERE key = ? AND sum = coppice_sum(key, value, rev)`)
	c.getSequence = prepare(`SELECT last FROM sequence WHERE prefix = ?`)
	c.setSequence = prepare(`INSERT OR REPLACE INTO sequence (prefix, last) VALUES (?, ?)`)
	c.getMeta = prepare(`SELECT value FROM meta WHERE name = ?`)
	c.setMeta = prepare(`UPDATE meta SET value = ? WHERE name = ?`)
	c.begin = prepare(`BEGIN IMMEDIATE`)
	c.commit = prepare(`COMMIT`)
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() error {
	for _, stmt := range c.stmts {
		stmt.Close()
	}
	return c.Conn.Close()
}

// exec runs a statement that returns nothing. It takes no context, because a transaction that has
// begun must be finished.
func (c *conn) exec(query string) error {
	_, err := c.ExecContext(context.Background(), query)
	return err
}

// rollback ends a transaction, which SQLite may already have rolled back.
func (c *conn) rollback() { c.exec("ROLLBACK") }

// write writes a batch into the open transaction.
func (c *conn) write(b *local.Batch) error {
	var args []any
	for _, key := range slices.Sorted(maps.Keys(b.Records)) { // in the order of the file
		p := b.Records[key]
		if p.Deleted {
			if _, err := c.deleteRow.Exec(key); err != nil {
				return err
			}
			continue
		}
		args = append(args, key, p.Value, int64(p.Rev), checksum(key, p.Value, p.Rev))
	}
	if err := c.putAll(args); err != nil {
		return err
	}
	for prefix, last := range b.Sequences {
		if _, err := c.setSequence.Exec(prefix, int64(last)); err != nil {
			return err
		}
	}
	return c.set("rev", uint64(b.Rev()))
}

// putAll writes records: the columns of each, one after the other.
func (c *conn) putAll(args []any) error {
	for _, put := range c.putRows {
		for n := put.rows * columns; len(args) >= n; args = args[n:] {
			if _, err := put.stmt.Exec(args[:n]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// set writes a row of meta.
func (c *conn) set(name string, value uint64) error {
	_, err := c.setMeta.Exec(int64(value), name)
	return err
}

func (c *conn) recordRev(key string) (uint64, error)   { return number(c.getRev.QueryRow(key)) }
func (c *conn) sequence(prefix string) (uint64, error) { return number(c.getSequence.QueryRow(prefix)) }
func (c *conn) meta(name string) (uint64, error)       { return number(c.getMeta.QueryRow(name)) }

// number reads a single number, or 0 if there is no row.
func number(row *sql.Row) (uint64, error) {
	var n int64
	err := row.Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return uint64(n), err
}
