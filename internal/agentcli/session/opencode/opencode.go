// Package opencode reads the database in which opencode keeps its sessions, while opencode writes it.
//
// Rows are updated in place: the message and its parts while the model answers, and a part of a tool while the tool
// works. A row is read again until its message has a successor in its session, and is passed on when it has changed.
package opencode

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Reader reads some sessions, and all sessions that they have begun, such as those of subagents. It is not safe for
// concurrent use. New makes it.
type Reader struct {
	since    time.Time
	seed     maphash.Seed
	roots    []string
	last     state
	sessions map[string]progress

	begun   []string // as of a state
	begunAt state
}

// New returns a Reader of what was written since a time.
func New(since time.Time) *Reader {
	return &Reader{since: since, seed: maphash.MakeSeed(), sessions: map[string]progress{}}
}

// progress marks the rows of a session that were read.
type progress struct {
	from int64 // when the last message was created
	rows map[string]version
}

// version tells a row from the same row with other content.
type version struct {
	created int64 // of its message
	hash    uint64
}

// Row is a row that is new or has changed.
type Row struct {
	agentcli.OpencodeRow
	Sub bool // it is of a session below another one
}

// Read returns what sessions have more. If it returns nothing, there is nothing more for now. dir is the directory of
// the database, whose files are opened for reading only. After an error, the next call may read more.
func (r *Reader) Read(dir fs.StatFS, name string, sessions []string) ([]Row, error) {
	if !slices.Equal(r.roots, sessions) {
		r.roots, r.last = slices.Clone(sessions), state{}
	}
	var p *pass
	now, err := snapshot(dir, name, r.last, func(c *conn) error {
		p = &pass{conn: c, reader: r, sessions: maps.Clone(r.sessions)}
		return p.read()
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if p == nil {
		return nil, nil
	}
	r.sessions = p.sessions
	if r.last = now; p.full {
		r.last = state{}
	}
	return p.rows, nil
}

// Begun returns the sessions that were begun in one of some directories, and not below another session: at most two
// of each directory.
func (r *Reader) Begun(dir fs.StatFS, name string, dirs []string) ([]string, error) {
	now, err := snapshot(dir, name, r.begunAt, func(c *conn) error {
		r.begun = nil
		if err := c.checkSchema(); err != nil {
			return err
		}
		for _, d := range slices.Compact(slices.Sorted(slices.Values(dirs))) {
			if err := r.begunIn(c, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.begun, r.begunAt = nil, state{}
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	r.begunAt = now
	return r.begun, nil
}

// begunIn adds the sessions of a directory. Without the plus sign, SQLite would look at almost all sessions by index.
func (r *Reader) begunIn(c *conn, dir string) error {
	rows, err := c.QueryContext(c.ctx, `SELECT id FROM session WHERE directory = ? AND +parent_id IS NULL
		AND time_created >= ? LIMIT 2`, dir, r.since.UnixMilli())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		r.begun = append(r.begun, id)
	}
	return rows.Err()
}

// checkSchema checks that the tables are tables: of a view, a query could take any time.
func (c *conn) checkSchema() error {
	var tables int
	err := c.QueryRowContext(c.ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0
		AND name IN ('session', 'message', 'part')`).Scan(&tables)
	if err == nil && tables != 3 {
		err = errors.New("it is not of a version of opencode that is known")
	}
	return err
}
