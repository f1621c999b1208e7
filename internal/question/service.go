package question

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/internal/token"
)

// Options configure a Service. Fields that are functions may be nil.
type Options struct {
	Store  store.Store
	Logger *slog.Logger // slog.Default() if nil
	Log    Log          // nil: no events are written
	Mail   Mail         // sends answers that the agent does not wait for; may be nil
	// IsAgent reports whether a path is that of an agent, which can get mail.
	IsAgent func(path string) bool
	// Await runs wait on behalf of an incarnation, no longer than that lives.
	Await func(ctx context.Context, who token.Caller, wait func(context.Context) error) error
	// Asked is called for each new question.
	Asked func(Question)
	// Ended is called for each question that has ended, once that is durable. waited reports
	// whether a call of Wait was in progress. It may be called from any goroutine.
	Ended func(q Question, waited bool)
}

// Log is the event log.
type Log interface {
	// Op returns the operation that writes an event.
	Op(event.Event) store.Op
}

// Mail sends messages to agents.
type Mail interface {
	Send(context.Context, mail.Post) (sent mail.Message, fresh bool, err error)
	// ArchiveSent archives the message that was sent under a key, if it is unread.
	ArchiveSent(ctx context.Context, from, key string) error
}

// Service holds all questions and handles requests about them. Methods that change something return
// when the change is durable. Errors are those of this package or of the store.
type Service struct {
	o       Options
	ledger  *ledger.Ledger[record]
	byAgent map[string][]uint64  // numbers, rising; guarded by the ledger, as is due
	due     map[uint64]time.Time // deadlines of open questions, by the monotonic clock

	mu      sync.Mutex
	waiters map[uint64]map[chan struct{}]bool
	changed chan struct{} // holds a token when a deadline was added
	stop    context.CancelFunc
	stopped chan struct{}
}

// record is a question as it is stored.
type record struct {
	Question
	Key string `json:"key,omitempty"`
}

// OpenService reads the questions from the store. Questions whose deadline has passed meanwhile end
// at once.
func OpenService(ctx context.Context, o Options) (*Service, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{
		o: o, byAgent: make(map[string][]uint64), due: make(map[uint64]time.Time),
		waiters: make(map[uint64]map[chan struct{}]bool), changed: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	var err error
	s.ledger, err = ledger.Open(ctx, ledger.Options[record]{
		Store: o.Store, Prefix: "questions", Check: check, Index: s.index, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the questions: %w", err)
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.watch(ctx)
	return s, nil
}

// Close stops watching the deadlines. The store stays open.
func (s *Service) Close() {
	s.stop()
	<-s.stopped
}

// check refuses records that are not questions.
func check(n uint64, r *record) error {
	known := r.State == Open || r.State == Answered || r.State == Expired || r.State == Withdrawn
	if r.ID != id(n) || r.From == "" || !known {
		return errors.New("the record is not a question with that number")
	}
	if r.Options == nil {
		r.Options = []string{}
	}
	return nil
}

// index updates what is derived from the questions after a change of a record.
func (s *Service) index(n uint64, before, after *record) {
	if before != nil && (after == nil || after.From != before.From) {
		isN := func(other uint64) bool { return other == n }
		s.byAgent[before.From] = slices.DeleteFunc(s.byAgent[before.From], isN)
	}
	if after != nil && (before == nil || after.From != before.From) {
		i, _ := slices.BinarySearch(s.byAgent[after.From], n)
		s.byAgent[after.From] = slices.Insert(s.byAgent[after.From], i, n)
	}
	open := after != nil && after.State == Open
	if !open {
		s.wake(n)
	}
	switch _, timed := s.due[n]; {
	case !open || after.Deadline.IsZero():
		delete(s.due, n)
	case !timed:
		// A stored deadline is of the wall clock. From here on, the remaining time is measured
		// with the monotonic clock.
		now := time.Now()
		s.due[n] = now.Add(after.timeLeft(now))
		signal(s.changed)
	}
}

// wake wakes the calls that wait for a question.
func (s *Service) wake(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.waiters[n] {
		signal(c)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ask asks a question, and reports whether it is new. It is not new if the same Key was used, or if
// the agent has an open question with the same text, or an answered one whose answer it has not
// taken. So a restarted agent that asks again gets the answer that came while it was down.
func (s *Service) Ask(ctx context.Context, d Draft) (q Question, fresh bool, err error) {
	if d, err = d.normalise(); err != nil {
		return Question{}, false, err
	}
	err = s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		fresh = false
		same, open := s.findRepeated(d)
		switch {
		case same != nil && same.Text != d.Text:
			return invalid("the key %.40q is that of another question, %s", d.Key, same.ID)
		case same != nil:
			q = same.Question
			return nil
		case open >= MaxOpen:
			return fmt.Errorf("%w: %s has %d, and can ask more when some have been answered or withdrawn", ErrTooMany,
				d.From, open)
		}
		fresh = true
		s.prune(c, d.From)
		c.Add(func(n uint64) record {
			q = Question{
				ID: id(n), From: d.From, Incarnation: d.Incarnation, Text: d.Text, Options: d.Options,
				Default: d.Default, At: now(), State: Open,
			}
			if d.Within > 0 {
				q.Deadline = q.At.Add(d.Within)
			}
			return record{Question: q, Key: d.Key}
		})
		s.log(c, q)
		return nil
	})
	if err == nil && fresh && s.o.Asked != nil {
		s.o.Asked(q)
	}
	return q, fresh, err
}

// findRepeated returns the question that a draft repeats, and the number of open ones.
func (s *Service) findRepeated(d Draft) (same *record, open int) {
	byKey := false
	for _, n := range s.byAgent[d.From] {
		r := s.ledger.Get(n)
		if r.State == Open {
			open++
		}
		repeats := r.Text == d.Text && (r.State == Open || r.State == Answered && r.TakenAt.IsZero())
		if !byKey && d.Key != "" && r.Key == d.Key {
			same, byKey = r, true
		} else if same == nil && repeats {
			same = r
		}
	}
	return same, open
}

// maxPruned bounds the questions that one change removes.
const maxPruned = 10

// prune removes ended questions of an agent that are old or too many.
func (s *Service) prune(c *ledger.Change[record], agent string) {
	isOpen := func(n uint64) bool { return s.ledger.Get(n).State == Open }
	ended := slices.DeleteFunc(slices.Clone(s.byAgent[agent]), isOpen)
	removed := 0
	for _, n := range ended {
		old := time.Since(s.ledger.Get(n).EndedAt) > KeepEnded
		if removed < maxPruned && (old || len(ended)-removed >= MaxEnded) {
			c.Delete(n)
			removed++
		}
	}
}

// log adds the event of a question to a change.
func (s *Service) log(c *ledger.Change[record], q Question) {
	if s.o.Log != nil {
		c.Also(s.o.Log.Op(changedEvent(q)))
	}
}

func now() time.Time { return time.Now().UTC().Round(0) }

// Answer answers an open question. Only the first answer counts: later ones get ErrEnded. An answer
// that is none of the options is an ErrInvalid.
func (s *Service) Answer(ctx context.Context, id, answer, by string) (Question, error) {
	by = clean(by)
	if by == "" || len(by) > MaxOption || by == ByDeadline || strings.ContainsFunc(by, unicode.IsControl) {
		return Question{}, invalid("the name of the answerer is %.40q, expected one line of up to %d bytes, not %q",
			by, MaxOption, ByDeadline)
	}
	return s.end(ctx, "", id, func(q Question) (Question, error) { return q.answer(answer, by, now()) })
}

// Withdraw ends an open question whose answer the agent no longer needs.
func (s *Service) Withdraw(ctx context.Context, agent, id string) (Question, error) {
	return s.end(ctx, agent, id, func(q Question) (Question, error) { return q.withdraw(now()) })
}

// Take marks the outcome of a question as known to its agent. Asking the same again is a new
// question from then on. An open question stays as it is.
func (s *Service) Take(ctx context.Context, agent, id string) (Question, error) {
	return s.change(ctx, agent, id, func(q Question) (Question, error) { return q.take(now()) })
}

// end is change for a change that ends the question.
func (s *Service) end(
	ctx context.Context, agent, id string, change func(Question) (Question, error),
) (Question, error) {
	waited := s.Waited(id) // before the change ends the waits
	q, err := s.change(ctx, agent, id, change)
	if err != nil {
		return q, err
	}
	if s.o.Ended != nil {
		s.o.Ended(q, waited)
	}
	if !waited {
		s.forward(q)
	}
	return q, nil
}

// change changes a question; of an agent, if one is given.
func (s *Service) change(
	ctx context.Context, agent, id string, change func(Question) (Question, error),
) (q Question, err error) {
	n, err := parseID(id)
	if err != nil {
		return Question{}, err
	}
	err = s.ledger.Update(ctx, func(c *ledger.Change[record]) error {
		r, err := s.find(agent, n)
		if err != nil {
			return err
		}
		after := *r
		if after.Question, err = change(r.Question); err != nil {
			return err
		}
		if q = after.Question; q.State != r.State {
			s.log(c, q)
		} else if q.TakenAt.Equal(r.TakenAt) {
			return nil
		}
		c.Put(n, after)
		return nil
	})
	return q, err
}

// find returns a question; of an agent, if one is given.
func (s *Service) find(agent string, n uint64) (*record, error) {
	r := s.ledger.Get(n)
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: %s; coppice inbox lists those that are open", ErrNotFound, id(n))
	case agent != "" && r.From != agent:
		return nil, fmt.Errorf("%w of %s: %s", ErrNotFound, agent, id(n))
	}
	return r, nil
}
