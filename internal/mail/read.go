package mail

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// Peek returns messages of a mailbox with their bodies, and leaves them as they
// are. ErrNotFound: one is not there; ErrLost: its body is not.
func (s *Service) Peek(ctx context.Context, address string, ids []string) ([]Message, error) {
	numbers, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	if err := s.each(ctx, address, numbers, func(*record) bool { return false }); err != nil {
		return nil, err
	}
	bodies := make(map[uint64]string, len(numbers))
	for _, n := range numbers {
		if bodies[n], err = s.body(ctx, n); err != nil {
			return nil, err
		}
	}
	return s.withBodies(numbers, bodies), nil
}

// Read is Peek, and marks the messages as read by that incarnation of the
// agent, 0 for people. Either all of them are, or none.
func (s *Service) Read(ctx context.Context, address string, incarnation uint64, ids []string) ([]Message, error) {
	unmarked, err := s.Peek(ctx, address, ids)
	if err != nil {
		return nil, err
	}
	numbers, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	bodies := make(map[uint64]string, len(numbers))
	for _, m := range unmarked {
		n, _ := parseID(m.ID)
		bodies[n] = m.Body
	}
	err = s.each(ctx, address, numbers, func(r *record) bool {
		if !r.ReadAt.IsZero() {
			return false
		}
		r.ReadAt, r.ReadBy = time.Now().UTC().Round(0), incarnation
		return true
	})
	if err != nil {
		return nil, err
	}
	return s.withBodies(numbers, bodies), nil
}

// withBodies is get, with bodies that were read before.
func (s *Service) withBodies(numbers []uint64, bodies map[uint64]string) []Message {
	messages := s.get(numbers)
	for i := range messages {
		n, _ := parseID(messages[i].ID)
		messages[i].Body = bodies[n]
	}
	return messages
}

// Archive puts messages of a mailbox away and returns them without their
// bodies: they are no longer unread, and may be removed when they are old.
// Either all of them are, or none (ErrNotFound).
func (s *Service) Archive(ctx context.Context, address string, ids []string) ([]Message, error) {
	numbers, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	if err := s.each(ctx, address, numbers, archive); err != nil {
		return nil, err
	}
	return s.get(numbers), nil
}

// get returns messages, those that are still there.
func (s *Service) get(numbers []uint64) (messages []Message) {
	s.ledger.View(func() {
		for _, n := range numbers {
			if r := s.ledger.Get(n); r != nil {
				messages = append(messages, r.Message)
			}
		}
	})
	return messages
}

func archive(r *record) bool {
	if !r.ArchivedAt.IsZero() {
		return false
	}
	r.ArchivedAt = time.Now().UTC().Round(0)
	return true
}

// Settle archives what was sent under a key if it is unread: its addressee has
// learned the same in another way.
func (s *Service) Settle(ctx context.Context, from, key string) error {
	return s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		n, ok := s.sent[sender{from, key}]
		if !ok {
			return nil
		}
		if r := *s.ledger.Get(n); r.Unread() && archive(&r) {
			c.Put(n, r)
		}
		return nil
	})
}

// Deliver returns the unread messages that an incarnation of an agent has not
// been told of yet, without their bodies, and notes that it has: each of them
// once. At most maxBatch come at a time. With a key, the same messages come again
// when the same key does, for a caller whose answer was lost.
func (s *Service) Deliver(ctx context.Context, address string, incarnation uint64, key string) ([]Message, error) {
	if len(key) > MaxKey {
		return nil, fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", ErrInvalid, len(key), MaxKey)
	}
	var told []Message
	err := s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		told = nil
		at := s.boxes[address]
		if at == nil {
			return nil
		}
		if key != "" {
			for _, n := range at.numbers {
				if r := s.ledger.Get(n); r.Told == incarnation && r.ToldKey == key {
					told = append(told, r.Message)
				}
			}
		}
		if len(told) > 0 {
			return nil
		}
		for _, n := range at.numbers {
			r := *s.ledger.Get(n)
			if !r.Unread() || r.Told >= incarnation {
				continue
			}
			r.Told, r.ToldKey = incarnation, key
			c.Put(n, r)
			if told = append(told, r.Message); len(told) == maxBatch {
				return nil
			}
		}
		return nil
	})
	return told, err
}

// Begin tells that an incarnation of an agent starts. Where numbers begin
// again, as they do with each run, what one of that number was told of before it
// was told to somebody else.
func (s *Service) Begin(ctx context.Context, address string, incarnation uint64) error {
	for more := true; more; {
		err := s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
			more = false
			at := s.boxes[address]
			if at == nil {
				return nil
			}
			changed := 0
			for _, n := range at.numbers {
				r := *s.ledger.Get(n)
				if !r.Unread() || r.Told < incarnation {
					continue
				}
				if changed == maxBatch {
					more = true
					return nil
				}
				r.Told, r.ToldKey = 0, ""
				c.Put(n, r)
				changed++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each lets change do something to copies of messages of a mailbox, and writes
// those that it has changed.
func (s *Service) each(ctx context.Context, address string, numbers []uint64, change func(*record) bool) error {
	return s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		for _, n := range numbers {
			held := s.ledger.Get(n)
			if held == nil || held.To != address {
				return fmt.Errorf("%w in the mailbox of %s: %s", ErrNotFound, address, id(n))
			}
			if r := *held; change(&r) {
				c.Put(n, r)
			}
		}
		return nil
	})
}

// parseIDs reads ids and leaves out repetitions.
func parseIDs(ids []string) ([]uint64, error) {
	if len(ids) > maxBatch {
		return nil, fmt.Errorf("%w: %d ids, at most %d are allowed at a time", ErrInvalid, len(ids), maxBatch)
	}
	var numbers []uint64
	for _, text := range ids {
		n, err := parseID(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// body reads the body of a message, which never changes.
func (s *Service) body(ctx context.Context, n uint64) (string, error) {
	key := s.bodyKey(n)
	records, _, err := s.o.Store.Snapshot(ctx, key)
	if err != nil {
		return "", fmt.Errorf("reading the body of %s: %w", id(n), err)
	}
	for _, r := range records {
		if r.Key == key {
			return string(r.Value), nil
		}
	}
	return "", fmt.Errorf("%w: %s has no body in the store; archive it", ErrLost, id(n))
}
