package opencode

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"maps"
)

// Bounds of what is read.
const (
	maxID       = 200     // bytes of an ID
	maxSessions = 1000    // sessions, with those below them
	maxMessages = 200     // messages of a query
	maxParts    = 5000    // parts of a message
	maxBytes    = 8 << 20 // bytes of all rows that are new, and of the messages of a query
)

// ErrBounds is the error of a database that has more than can be read.
var ErrBounds = errors.New("it has too many sessions, messages at a time, or parts of a message")

// pass reads a snapshot. The reader takes over what it has read when the snapshot is known to be consistent.
type pass struct {
	*conn
	reader   *Reader
	sessions map[string]progress
	rows     []Row
	bytes    int
	full     bool // there is more than maxBytes
}

func (p *pass) read() error {
	if err := p.checkSchema(); err != nil {
		return err
	}
	for _, root := range p.reader.roots {
		if err := p.below(root); err != nil {
			return err
		}
	}
	return nil
}

// below reads a session and those below it that were used since the call has begun.
func (p *pass) below(root string) error {
	rows, err := p.QueryContext(p.ctx, `WITH RECURSIVE below(id, version, used, sub) AS (
			SELECT id, version, time_updated, 0 FROM session WHERE id = ?
			UNION SELECT s.id, s.version, s.time_updated, 1 FROM session s JOIN below ON s.parent_id = below.id)
		SELECT id, version, sub FROM below WHERE sub = 0 OR used >= ? LIMIT ?`,
		root, p.reader.since.UnixMilli(), maxSessions+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []Row
	for rows.Next() {
		var s Row
		if err := rows.Scan(&s.Session, &s.Version, &s.Sub); err != nil {
			return err
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(all) > maxSessions {
		return ErrBounds
	}
	for _, s := range all {
		if err := p.session(s); err != nil {
			return err
		}
	}
	return nil
}

// session reads the messages of a session.
func (p *pass) session(s Row) error {
	at, known := p.sessions[s.Session]
	if !known {
		at.from = p.reader.since.UnixMilli()
	}
	at.rows = maps.Clone(at.rows)
	if at.rows == nil {
		at.rows = map[string]version{}
	}
	for more := true; more && !p.full; {
		var all []message
		var err error
		if all, more, err = p.messages(s, at.from); err != nil {
			return err
		}
		from := at.from
		for _, m := range all {
			if err := p.message(m, &at); err != nil {
				return err
			}
			if p.full {
				break
			}
		}
		if more && !p.full {
			if at.from = all[len(all)-1].Created; at.from == from {
				return ErrBounds
			}
		}
	}
	maps.DeleteFunc(at.rows, func(_ string, v version) bool { return v.created < at.from })
	p.sessions[s.Session] = at
	return nil
}

// message is a message with its role.
type message struct {
	Row
	id        string
	assistant bool
}

// messages returns messages from a time on, the oldest ones first, and whether there may be more.
func (p *pass) messages(s Row, from int64) (all []message, more bool, err error) {
	rows, err := p.QueryContext(p.ctx, `SELECT id, time_created, `+data+` FROM message
		WHERE session_id = ? AND time_created >= ? ORDER BY time_created, id LIMIT ?`, s.Session, from, maxMessages)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for bytes := 0; bytes <= maxBytes && rows.Next(); {
		m := message{Row: s}
		if err := rows.Scan(&m.id, &m.Created, (*text)(&m.Data)); err != nil {
			return nil, false, err
		}
		var info struct {
			Role  string `json:"role"`
			Model string `json:"modelID"`
		}
		if json.Unmarshal(m.Data, &info) == nil {
			m.Model, m.assistant = info.Model, info.Role == "assistant"
		}
		bytes += len(m.Data)
		more = len(all)+1 == maxMessages || bytes > maxBytes
		all = append(all, m)
	}
	return all, more, rows.Err()
}

// message reads a message with its parts. What users say has no parts of interest, and counts once: opencode adds to
// such a message later.
func (p *pass) message(m message, at *progress) error {
	if !m.assistant {
		if _, known := at.rows[m.id]; !known {
			p.add(m.Row, m.id, at)
		}
		return nil
	}
	rows, err := p.QueryContext(p.ctx, `SELECT id, `+data+` FROM part WHERE message_id = ? ORDER BY id LIMIT ?`,
		m.id, maxParts+1)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxParts {
			return ErrBounds
		}
		part := m.Row
		if err := rows.Scan(&part.Part, (*text)(&part.Data)); err != nil {
			return err
		}
		if p.add(part, part.Part, at); p.full {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	p.add(m.Row, m.id, at)
	at.from = max(at.from, m.Created)
	return nil
}

// add adds a row if it is new or has changed.
func (p *pass) add(row Row, id string, at *progress) {
	if len(id) > maxID {
		id, row.Data = id[:maxID], nil
	}
	now := version{row.Created, maphash.Bytes(p.reader.seed, row.Data)}
	if at.rows[id] == now {
		return
	}
	at.rows[id] = now
	p.rows = append(p.rows, row)
	p.bytes += len(row.Data)
	p.full = p.full || p.bytes > maxBytes
}

// data is the column data if it is text that is not too large. opencode bounds what tools write, but not all.
const data = `CASE WHEN typeof(data) = 'text' AND octet_length(data) <= 2000000 THEN data END`

// text is JSON; null if it is none.
type text json.RawMessage

// Scan implements sql.Scanner.
func (t *text) Scan(value any) error {
	*t = nil
	if s, ok := value.(string); ok && json.Valid([]byte(s)) {
		*t = text(s)
	}
	return nil
}
