package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
)

// Bounds on what agents claim.
const (
	keepClaims   = 20              // of an agent; the oldest go first
	maxRevisions = 100             // of a claim: each is an event
	claimTime    = 5 * time.Second // for the store to take it
)

// claims are what agents say of how their work has ended. They are kept and
// shown, and nothing else follows from them.
type claims struct {
	mu sync.Mutex // held while one is recorded: nobody else writes them
	// lives tells the incarnation of a path from one of an earlier life of the
	// tree that had the same number.
	lives sync.Map // path -> string
}

// live notes which incarnation lives, by its token.
func (c *claims) live(path, token string) {
	sum := sha256.Sum256([]byte(token))
	c.lives.Store(path, hex.EncodeToString(sum[:8]))
}

// claimRecord is a claim in the store, under a number of its own.
type claimRecord struct {
	Path string `json:"path"`
	Life string `json:"life,omitempty"`
	api.Claim
	number uint64
}

const claimPrefix = "claims"

// claimsKey is the prefix of an agent's claims. Names may hold what keys may not.
func claimsKey(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return claimPrefix + "/" + strings.Join(parts, "/")
}

// Claim is part of api.Outcomes.
func (c *Controller) Claim(ctx context.Context, who api.Caller, o outcome.Outcome) error {
	c.claims.mu.Lock()
	defer c.claims.mu.Unlock()
	past, err := c.claimsOf(ctx, who.Path)
	if err != nil {
		return err
	}
	life, _ := c.claims.lives.Load(who.Path)
	r := claimRecord{Path: who.Path, Claim: api.Claim{Incarnation: who.Incarnation, Time: time.Now(), Report: o.Report()}, number: 1}
	r.Life, _ = life.(string)
	message := fmt.Sprintf("%s claims: %s", who.Path, o)
	if n := len(past); n > 0 {
		last := past[n-1]
		r.number = last.number + 1
		if last.Incarnation == who.Incarnation && last.Life == r.Life {
			switch {
			case same(last.Report, r.Report):
				return nil
			case last.Revisions >= maxRevisions:
				return fmt.Errorf("%w: incarnation %d of %s has revised its outcome %d times, and that is enough", api.ErrConflict, who.Incarnation, who.Path, last.Revisions)
			}
			r.number, r.Revisions = last.number, last.Revisions+1
			message = fmt.Sprintf("%s claims now: %s", who.Path, o)
		}
	}
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("the claim of %s: %w", who.Path, err)
	}
	ops := []store.Op{{Kind: store.Put, Key: store.SequenceKey(claimsKey(who.Path), r.number), Value: value}}
	if len(past) >= keepClaims && r.Revisions == 0 {
		ops = append(ops, store.Op{Kind: store.Delete, Key: store.SequenceKey(claimsKey(who.Path), past[0].number)})
	}
	c.log.Append(event.Event{
		Time: r.Time, Type: event.AgentClaimed, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path, Message: message,
	}.With(map[string]any{"kind": o.Kind(), "summary": o.Report().Summary, "revision": r.Revisions}), ops...)
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	if err := c.log.SyncTo(ctx, c.log.Mark()); err != nil {
		return fmt.Errorf("%w: the outcome is not durable yet, say it again later: %w", api.ErrConflict, cmp.Or(c.log.Err(), err))
	}
	return nil
}

func same(a, b outcome.Report) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// claimsOf reads what an agent has claimed, oldest first. What cannot be read
// is left out.
func (c *Controller) claimsOf(ctx context.Context, path string) ([]claimRecord, error) {
	stored, _, err := c.opts.Store.Snapshot(ctx, claimsKey(path))
	if err != nil {
		return nil, fmt.Errorf("reading the claims of %s: %w", path, err)
	}
	var all []claimRecord
	for _, s := range stored {
		number, ok := store.ParseSequenceKey(claimsKey(path), s.Key)
		if !ok {
			continue // of an agent below a supervisor of this name
		}
		r := claimRecord{}
		if err := json.Unmarshal(s.Value, &r); err != nil {
			c.opts.Logger.Warn("a claim cannot be read", "key", s.Key, "error", err)
			r = claimRecord{} // half of it is no claim
		}
		r.number = number
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b claimRecord) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// claimed are the claims of an agent as its explanation shows them.
func (c *Controller) claimed(ctx context.Context, path string) []api.Claim {
	all, err := c.claimsOf(ctx, path)
	if err != nil {
		c.opts.Logger.Warn("what an agent has claimed cannot be read", "path", path, "error", err)
	}
	claims := []api.Claim{}
	for _, r := range all {
		if r.Path == path { // it could be read
			claims = append(claims, r.Claim)
		}
	}
	return claims
}
