package web

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// sessionsKey is the key of the record of who is signed in, and in a fleet the prefix of those of all nodes.
const sessionsKey = "web/sessions"

// saveTime is how long a session may take to be written.
const saveTime = 5 * time.Second

// keptSession is a session in the store, which others may be able to read: it has the hash of the cookie, not the
// cookie.
type keptSession struct {
	Hash  string    `json:"hash"` // SHA-256, in hexadecimal digits
	Role  role      `json:"role"`
	Until time.Time `json:"until"`
}

// load reads who was signed in at a server before this one, on the same node of a fleet.
func (s *sessions) load(ctx context.Context, from store.Store, node string) error {
	at := sessionsKey
	if node != "" {
		at += "/" + node
	}
	record, err := store.Get(ctx, from, at)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.keptAt = from, at
	if record.Rev == 0 {
		return nil
	}
	var all []keptSession
	if err := json.Unmarshal(record.Value, &all); err != nil {
		return fmt.Errorf("record %s: %w", at, err)
	}
	for _, one := range all {
		var k key
		hash, err := hex.DecodeString(one.Hash)
		if err != nil || len(hash) != len(k) || one.Role != operator && one.Role != reader {
			return fmt.Errorf("record %s: %.100q with role %.100q is not a session", at, one.Hash, one.Role)
		}
		copy(k[:], hash)
		if one.Until.After(s.now()) && len(s.sessions) < maxSessions {
			s.sessions[k] = &session{role: one.Role, until: one.Until}
		}
	}
	return nil
}

// save writes who is signed in for a server after this one.
func (s *sessions) save(ctx context.Context) error {
	s.saving.Lock() // what was changed last is written last
	defer s.saving.Unlock()
	s.mu.Lock()
	to, at := s.kept, s.keptAt
	all := []keptSession{}
	for k, one := range s.sessions {
		if one.until.After(s.now()) {
			all = append(all, keptSession{hex.EncodeToString(k[:]), one.role, one.until})
		}
	}
	s.mu.Unlock()
	if to == nil {
		return nil
	}
	value, err := json.Marshal(all)
	if err != nil {
		return err
	}
	// A browser that leaves does not undo what it has asked for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	_, err = to.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: at, Value: value}})
	return err
}
