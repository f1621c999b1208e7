package mail

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// Peek returns messages of a mailbox with their bodies, without marking them as read. The error is
// ErrNotFound if a message is missing, and ErrLost if a body is.
func (s *Service) Peek(ctx context.Context, address string, ids []string) ([]Message, error) {
	return s.withBodies(ctx, address, ids, func(*record) bool { return false })
}

// Read is Peek, and marks all of the messages as read by an incarnation of the agent; 0 for people.
func (s *Service) Read(ctx context.Context, address string, incarnation uint64, ids []string) ([]Message, error) {
	return s.withBodies(ctx, address, ids, func(r *record) bool {
		if !r.ReadAt.IsZero() {
			return false
		}
		r.ReadAt, r.ReadBy = now(), incarnation
		return true
	})
}

// withBodies reads the bodies of messages, applies change to all of them and returns them.
func (s *Service) withBodies(
	ctx context.Context, address string, ids []string, change func(*record) bool,
) ([]Message, error) {
	numbers, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	if err := s.each(ctx, address, numbers, func(*record) bool { return false }); err != nil {
		return nil, err
	}
	bodies := make(map[string]string, len(numbers)) // by id
	for _, n := range numbers {
		if bodies[id(n)], err = s.body(ctx, n); err != nil {
			return nil, err
		}
	}
	if err := s.each(ctx, address, numbers, change); err != nil {
		return nil, err
	}
	messages := s.get(numbers)
	for i := range messages {
		messages[i].Body = bodies[messages[i].ID]
	}
	return messages, nil
}

// Archive marks messages as archived and returns them without their bodies. Archived messages are
// not unread, and are removed when they are old. If one is missing, none is archived.
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

// get returns those of the messages that still exist.
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
	r.ArchivedAt = now()
	return true
}

// ArchiveSent archives the message that was sent under a key, if it is unread. Callers use it when
// the recipient has got the content in another way.
func (s *Service) ArchiveSent(ctx context.Context, from, key string) error {
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

// Deliver returns the unread messages that an incarnation has not been shown yet, without their
// bodies, and marks them as shown. It returns at most maxBatch messages at a time. The same key
// returns the same messages again, for a caller whose answer was lost.
func (s *Service) Deliver(ctx context.Context, address string, incarnation uint64, key string) ([]Message, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var delivered []Message
	err := s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		delivered = nil
		numbers := s.numbers(address)
		if key != "" {
			for _, n := range numbers {
				if r := s.ledger.Get(n); r.Told == incarnation && r.ToldKey == key {
					delivered = append(delivered, r.Message)
				}
			}
		}
		if len(delivered) > 0 {
			return nil
		}
		for _, n := range numbers {
			r := *s.ledger.Get(n)
			if !r.Unread() || r.Told >= incarnation {
				continue
			}
			r.Told, r.ToldKey = incarnation, key
			c.Put(n, r)
			if delivered = append(delivered, r.Message); len(delivered) == maxBatch {
				break
			}
		}
		return nil
	})
	return delivered, err
}

// Begin prepares the mailbox for a new incarnation. Numbers of incarnations start again with each
// run, so messages that were shown to this number or a later one before count as not shown.
func (s *Service) Begin(ctx context.Context, address string, incarnation uint64) error {
	for {
		changed := 0
		err := s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
			changed = 0
			for _, n := range s.numbers(address) {
				r := *s.ledger.Get(n)
				if changed < maxBatch && r.Unread() && r.Told >= incarnation {
					r.Told, r.ToldKey = 0, ""
					c.Put(n, r)
					changed++
				}
			}
			return nil
		})
		if err != nil || changed < maxBatch {
			return err
		}
	}
}

// each applies change to copies of messages of a mailbox, and writes those for which it returns
// true.
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

// parseIDs parses ids and removes duplicates.
func parseIDs(ids []string) ([]uint64, error) {
	if len(ids) == 0 || len(ids) > maxBatch {
		return nil, invalid("there are %d ids, expected 1 to %d", len(ids), maxBatch)
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

// body reads the body of a message. Bodies never change.
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
