package jointoken

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
)

// Prefix is the prefix of the keys of tokens, which end with their IDs.
const Prefix = "cluster/tokens"

// Bounds of the tokens of a fleet.
const (
	DefaultLife = 24 * time.Hour
	MaxLife     = 365 * 24 * time.Hour
	MaxTokens   = 100 // that are valid at a time; concurrent calls may make a few more
)

// Errors of a Store.
var (
	// ErrRefused is the one error for tokens that are unknown, expired or revoked and for wrong secrets, so that it
	// does not reveal which IDs there are.
	ErrRefused = errors.New("the join token is unknown, expired or revoked; make one with: coppice cluster token")
	// ErrNone is returned if there is no token to revoke.
	ErrNone = errors.New("no such join token; it may have expired or been revoked; list those that are valid with: " +
		"coppice cluster token ls")
)

// Info describes a token that is valid.
type Info struct {
	ID      string
	Created time.Time
	Expires time.Time
}

// stored is the record of a token.
type stored struct {
	Hash    []byte    `json:"hash"` // the SHA-256 of the secret
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Store keeps the tokens of a fleet. It is safe for concurrent use, by all nodes. Tokens that have expired are removed
// when others are made or used.
type Store struct {
	store  store.Store
	logger *slog.Logger
}

// NewStore returns the tokens in a store.
func NewStore(s store.Store, logger *slog.Logger) *Store { return &Store{s, logger} }

// Create makes a token that is valid for a time. After store.ErrUnknown there may be a token that no caller knows;
// it expires in the same time.
func (s *Store) Create(ctx context.Context, authority [sha256.Size]byte, addresses []string,
	life time.Duration) (Token, error) {
	if life <= 0 || life > MaxLife {
		return Token{}, fmt.Errorf("a join token cannot be valid for %v; expected more than 0 and at most %v", life,
			MaxLife)
	}
	if err := checkAddresses(addresses); err != nil {
		return Token{}, err
	}
	valid, err := s.load(ctx)
	if err != nil {
		return Token{}, err
	}
	if len(valid) >= MaxTokens {
		return Token{}, fmt.Errorf("there are %d join tokens already, the most that may be valid at a time; "+
			"revoke one with: coppice cluster token rm ID", len(valid))
	}
	for {
		t, err := newToken(authority, addresses)
		if err != nil {
			return Token{}, err
		}
		now := time.Now().UTC().Round(0)
		hash := sha256.Sum256(t.secret[:])
		value, err := json.Marshal(stored{Hash: hash[:], Created: now, Expires: now.Add(life)})
		if err != nil {
			return Token{}, err
		}
		_, created, err := record.Create(ctx, s.store, key(t.ID), value)
		if err != nil {
			return Token{}, fmt.Errorf("writing the join token: %w", err)
		}
		if created { // the ID was not taken
			return t, nil
		}
	}
}

// List returns the valid tokens, sorted by ID.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	all, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(all))
	for i, t := range all {
		infos[i] = Info{ID: t.id, Created: t.Created, Expires: t.Expires}
	}
	return infos, nil
}

// Revoke removes a token, also one whose record is damaged. Machines that have joined with it stay in the fleet.
func (s *Store) Revoke(ctx context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return err
	}
	for {
		r, err := store.Get(ctx, s.store, key(id))
		if err != nil {
			return fmt.Errorf("reading the join token %s: %w", id, err)
		}
		if r.Rev == 0 {
			return fmt.Errorf("%s: %w", id, ErrNone)
		}
		gone, err := record.Delete(ctx, s.store, r)
		if err != nil {
			return fmt.Errorf("revoking the join token %s: %w", id, err)
		}
		if gone {
			return nil
		}
	}
}

// Check returns nil if a secret is that of a valid token, and ErrRefused if it is not.
func (s *Store) Check(ctx context.Context, id string, secret []byte) error {
	if CheckID(id) != nil || len(secret) != SecretSize {
		return ErrRefused
	}
	valid, err := s.load(ctx)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(secret)
	for _, t := range valid {
		if t.id == id && subtle.ConstantTimeCompare(t.Hash, hash[:]) == 1 {
			return nil
		}
	}
	return ErrRefused
}

func key(id string) string { return Prefix + "/" + id }

// entry is a token that was read.
type entry struct {
	id string
	stored
}

// load returns the valid tokens, and removes those that have expired. A record that cannot be read is logged.
func (s *Store) load(ctx context.Context) (valid []entry, err error) {
	records, _, err := s.store.Snapshot(ctx, Prefix)
	if err != nil {
		return nil, fmt.Errorf("reading the join tokens: %w", err)
	}
	now := time.Now()
	for _, r := range records {
		e := entry{id: strings.TrimPrefix(r.Key, Prefix+"/")}
		err := json.Unmarshal(r.Value, &e.stored)
		switch {
		case err != nil || CheckID(e.id) != nil || len(e.Hash) != sha256.Size || e.Expires.IsZero():
			s.logger.Warn("a join token in the store cannot be read and is left alone", "key", r.Key)
		case now.Before(e.Expires):
			valid = append(valid, e)
		default:
			if _, err := record.Delete(ctx, s.store, r); err != nil {
				s.logger.Warn("cannot remove a join token that has expired", "id", e.id, "error", err)
			}
		}
	}
	return valid, nil
}
