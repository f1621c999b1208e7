package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// Options configure a Service. Fields that are functions may be nil.
type Options struct {
	Store  store.Store
	Logger *slog.Logger // slog.Default() if nil
	Log    Log          // nil: no events are written
	Agents Directory    // the possible recipients; needed for requests only
	// Arrived is called for each new message to an agent.
	Arrived func(Message)
	// Handled is called with messages that an agent has read or archived.
	Handled func(context.Context, []Message) error
}

// Log is the event log.
type Log interface {
	// Op returns the operation that writes an event.
	Op(event.Event) store.Op
}

// Directory provides the agents of the project.
type Directory interface {
	Project() string // the first segment of all paths
	HasAgent(path string) bool
	HasSupervisor(path string) bool
	Agents() []string // all paths, sorted
}

// Service holds all mailboxes and handles requests about them. Everything except bodies is kept in
// memory. Methods that change something return when the change is durable. Errors are those of
// this package or of the store.
type Service struct {
	o      Options
	ledger *ledger.Ledger[record]
	boxes  map[string]*box   // by address
	sent   map[sender]uint64 // by the sender's key
}

// record is a message as it is stored, without its body.
type record struct {
	Message
	Key     string `json:"key,omitempty"`
	ToldKey string `json:"told_key,omitempty"` // of the delivery to incarnation Told
}

type box struct {
	numbers          []uint64 // rising
	unread, archived int
}

// count adds a message to the counts; with by = -1 it removes it.
func (at *box) count(r *record, by int) {
	if r.Unread() {
		at.unread += by
	}
	if !r.ArchivedAt.IsZero() {
		at.archived += by
	}
}

type sender struct{ from, key string }

// now returns the time as it is stored.
func now() time.Time { return time.Now().UTC().Round(0) }

// Open reads the mailboxes from the store.
func Open(ctx context.Context, o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{o: o, boxes: make(map[string]*box), sent: make(map[sender]uint64)}
	var err error
	s.ledger, err = ledger.Open(ctx, ledger.Options[record]{
		Store: o.Store, Prefix: "mail/messages", Check: check, Index: s.index, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the mail: %w", err)
	}
	return s, nil
}

// check refuses records that are not messages.
func check(n uint64, r *record) error {
	if r.ID != id(n) || r.From == "" || r.To == "" || r.Size < 0 {
		return errors.New("the record is not a message with that number")
	}
	r.Body = ""
	return nil
}

// index updates the mailboxes after a change of a record.
func (s *Service) index(n uint64, before, after *record) {
	if before != nil {
		at := s.boxes[before.To]
		if i, found := slices.BinarySearch(at.numbers, n); found {
			at.numbers = slices.Delete(at.numbers, i, i+1)
		}
		at.count(before, -1)
		delete(s.sent, sender{before.From, before.Key})
	}
	if after != nil {
		at := s.boxes[after.To]
		if at == nil {
			at = &box{}
			s.boxes[after.To] = at
		}
		i, _ := slices.BinarySearch(at.numbers, n)
		at.numbers = slices.Insert(at.numbers, i, n)
		at.count(after, 1)
		if after.Key != "" {
			s.sent[sender{after.From, after.Key}] = n
		}
	}
}

func (s *Service) bodyKey(n uint64) string { return store.SequenceKey("mail/bodies", n) }

// Send delivers a message and returns it without its body. If the sender has sent the same message
// under the same key before, it returns that one; a different message is an ErrInvalid. ErrFull
// means that the recipient has too many unread messages, ErrNotFound that ReplyTo does not exist.
func (s *Service) Send(ctx context.Context, p Post) (sent Message, fresh bool, err error) {
	if p, err = p.normalise(); err != nil {
		return Message{}, false, err
	}
	err = s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		p := p
		if err := s.complete(&p); err != nil {
			return err
		}
		if n, ok := s.sent[sender{p.From, p.Key}]; ok && p.Key != "" {
			sent, fresh = s.ledger.Get(n).Message, false
			if sent.To != p.To || sent.Subject != p.Subject || sent.Size != len(p.Body) {
				return invalid("the key %.40q is that of another message, %s", p.Key, sent.ID)
			}
			return nil
		}
		if at := s.boxes[p.To]; at != nil {
			if at.unread >= MaxUnread {
				return fmt.Errorf("%w: %s has %d unread messages, and can be sent more when some "+
					"have been read or archived", ErrFull, p.To, at.unread)
			}
			s.prune(c, at)
		}
		fresh = true
		n := c.Add(func(n uint64) record {
			sent = Message{
				ID: id(n), From: p.From, Incarnation: p.Incarnation, To: p.To, Subject: p.Subject, Size: len(p.Body),
				At: now(), ReplyTo: p.ReplyTo, Question: p.Question,
			}
			return record{Message: sent, Key: p.Key}
		})
		c.Also(store.Op{Kind: store.Put, Key: s.bodyKey(n), Value: []byte(p.Body)})
		if s.o.Log != nil {
			c.Also(s.o.Log.Op(sentEvent(sent)))
		}
		return nil
	})
	if err != nil {
		return Message{}, false, err
	}
	if fresh && sent.To != People && s.o.Arrived != nil {
		s.o.Arrived(sent)
	}
	return sent, fresh, nil
}

// complete fills in the recipient and subject of a reply, and a missing subject.
func (s *Service) complete(p *Post) error {
	if p.ReplyTo != "" {
		n, err := parseID(p.ReplyTo)
		if err != nil {
			return err
		}
		to := s.ledger.Get(n)
		if to == nil || to.To != p.From && to.From != p.From {
			return fmt.Errorf("%w: %s, to reply to", ErrNotFound, id(n))
		}
		p.ReplyTo = to.ID
		if p.To == "" {
			p.To = to.From
			if p.To == p.From { // a reply to the sender's own message goes to the same recipient
				p.To = to.To
			}
		}
		p.Subject = cmp.Or(p.Subject, replySubject(to.Subject))
	}
	p.Subject = cmp.Or(p.Subject, Title(p.Body))
	return nil
}

// maxPruned bounds the expired messages that one change removes.
const maxPruned = 10

// prune makes room in a mailbox for one message, or removes some expired messages. Archived
// messages go first, then read ones.
func (s *Service) prune(c *ledger.Change[record], at *box) {
	archived := func(r *record) bool { return !r.ArchivedAt.IsZero() }
	read := func(r *record) bool { return !r.Unread() }
	old := func(r *record) bool { return archived(r) && time.Since(r.ArchivedAt) > KeepArchive }
	remove := func(most int, removable func(*record) bool) (removed int) {
		for _, n := range at.numbers {
			if removed < most && removable(s.ledger.Get(n)) {
				c.Delete(n)
				c.Also(store.Op{Kind: store.Delete, Key: s.bodyKey(n)})
				removed++
			}
		}
		return removed
	}
	switch {
	case len(at.numbers) >= MaxMessages:
		if at.archived == 0 || remove(1, archived) == 0 {
			remove(1, read)
		}
	case at.archived > 0:
		remove(maxPruned, old)
	}
}

// List returns the messages of a mailbox, oldest first, without their bodies. Unless all is set, it
// returns only unread messages.
func (s *Service) List(address string, all bool) []Message {
	var list []Message
	s.ledger.View(func() {
		for _, n := range s.numbers(address) {
			if r := s.ledger.Get(n); all || r.Unread() {
				list = append(list, r.Message)
			}
		}
	})
	return list
}

// numbers returns the numbers of the messages of a mailbox, rising. The caller holds the ledger.
func (s *Service) numbers(address string) []uint64 {
	if at := s.boxes[address]; at != nil {
		return at.numbers
	}
	return nil
}

// Unread returns the number of unread messages in a mailbox.
func (s *Service) Unread(address string) (n int) {
	s.ledger.View(func() {
		if at := s.boxes[address]; at != nil {
			n = at.unread
		}
	})
	return n
}
