package question

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// endRecorder collects the calls of Ended.
type endRecorder struct {
	mu   sync.Mutex
	ends []string
}

func (e *endRecorder) ended(q Question, waited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = append(e.ends, fmt.Sprintf("%s %s %q by %q, waited %v", q.ID, q.State, q.Answer, q.By, waited))
}

func (e *endRecorder) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := strings.Join(e.ends, "; ")
	e.ends = nil
	return all
}

func open(t fataler, s store.Store, e *endRecorder) *Service {
	t.Helper()
	d, err := OpenService(context.Background(), Options{Store: s, Ended: e.ended, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return d
}

func ask(t fataler, d *Service, a Draft) Question {
	t.Helper()
	q, _, err := d.Ask(context.Background(), a)
	if err != nil {
		t.Fatalf("asking %+v: %v", a, err)
	}
	return q
}

func TestNormalise(t *testing.T) {
	yesNo := []string{"yes", "no"}
	for name, test := range map[string]struct {
		ask  Draft
		want string // of the error, "" for none
	}{
		"text alone":       {Draft{Text: "Really?"}, ""},
		"everything":       {Draft{Text: "Really?", Options: yesNo, Default: "NO ", Within: time.Minute, Key: "k"}, ""},
		"largest":          {Draft{Text: strings.Repeat("x", MaxText)}, ""},
		"free default":     {Draft{Text: "Which?", Default: "any", Within: time.Minute}, ""},
		"nothing":          {Draft{Text: " \n "}, "no text"},
		"too long":         {Draft{Text: strings.Repeat("x", MaxText+1)}, "16385 bytes, at most 16384"},
		"default for ever": {Draft{Text: "x", Default: "y"}, "no deadline"},
		"wrong default":    {Draft{Text: "x", Options: yesNo, Default: "noo", Within: 1}, `did you mean "no"?`},
		"one option":       {Draft{Text: "x", Options: []string{"yes"}}, "one option only"},
		"empty option":     {Draft{Text: "x", Options: []string{"yes", " "}}, "empty"},
		"same options":     {Draft{Text: "x", Options: []string{"yes", "Yes"}}, "twice"},
		"long option":      {Draft{Text: "x", Options: []string{"yes", strings.Repeat("n", MaxOption+1)}}, "257 bytes"},
		"hostile option":   {Draft{Text: "x", Options: []string{"yes", "\x1b[2Jno"}}, "not one line of plain text"},
		"many options":     {Draft{Text: "x", Options: strings.Fields("a b c d e f g h i j k l m n o p q r s t u")}, "21 options, at most 20"},
		"deadline before":  {Draft{Text: "x", Within: -1}, "deadline"},
		"deadline for us":  {Draft{Text: "x", Within: MaxDeadline + 1}, "deadline"},
		"key":              {Draft{Text: "x", Key: strings.Repeat("k", MaxOption+1)}, "257 bytes"},
		"bad UTF-8":        {Draft{Text: "\xff?", Options: []string{"\xfe", "b"}}, ""},
	} {
		a, err := test.ask.normalise()
		switch {
		case test.want == "" && err != nil, test.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		case err == nil && (!utf8.ValidString(a.Text) || a.Options == nil || test.ask.Default == "NO " && a.Default != "no"):
			t.Errorf("%s: %+v", name, a)
		case err != nil && err.Error() != plaintext.Line(err.Error()):
			t.Errorf("%s: the error is not plain: %q", name, err)
		}
	}
}

func TestTransitions(t *testing.T) {
	at := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	open := Question{ID: "q-1", State: Open, Options: []string{"yes", "no"}, Default: "no"}
	free := Question{ID: "q-2", State: Open}
	answered, _ := open.answer("YES", "ann", at)
	lapsed, _ := open.expire(at)
	expired, _ := free.expire(at)
	withdrawn, _ := free.withdraw(at)
	for name, test := range map[string]struct{ got, want Question }{
		"answered":  {answered, Question{State: Answered, Answer: "yes", By: "ann"}},
		"lapsed":    {lapsed, Question{State: Answered, Answer: "no", By: ByDeadline}},
		"expired":   {expired, Question{State: Expired}},
		"withdrawn": {withdrawn, Question{State: Withdrawn}},
	} {
		if test.got.State != test.want.State || test.got.Answer != test.want.Answer || test.got.By != test.want.By || !test.got.EndedAt.Equal(at) || !test.got.TakenAt.IsZero() {
			t.Errorf("%s: %+v", name, test.got)
		}
		taken, err := test.got.take(at.Add(1))
		again, err2 := taken.take(at.Add(2))
		if err != nil || err2 != nil || !taken.TakenAt.Equal(at.Add(1)) || !again.TakenAt.Equal(at.Add(1)) {
			t.Errorf("%s, taken: %+v, %v", name, again, err)
		}
		// A question that has ended cannot change, and the error says how it ended.
		_, a := test.got.answer("no", "bob", at)
		_, l := test.got.expire(at)
		_, w := test.got.withdraw(at)
		for _, err := range []error{a, l, w} {
			if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), at.Local().Format(time.DateTime)) || !strings.Contains(err.Error(), test.want.By) || !strings.Contains(err.Error(), test.want.Answer) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if still, err := open.take(at); err != nil || !still.TakenAt.IsZero() {
		t.Errorf("an open one was taken: %+v, %v", still, err)
	}
	for answer, want := range map[string]string{"": "empty", " ": "empty", "maybe": `"yes", "no"`, strings.Repeat("x", MaxText+1): "16385", "\x1b[2J": "none of"} {
		if _, err := open.answer(answer, "ann", at); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || err.Error() != plaintext.Line(err.Error()) {
			t.Errorf("%.10q: %v", answer, err)
		}
	}
	if q, err := free.answer(" any \xff\n", "ann", at); err != nil || q.Answer != "any \uFFFD" {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestTimeLeft(t *testing.T) {
	at := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	q := Question{At: at, Deadline: at.Add(time.Hour)}
	for now, want := range map[time.Time]time.Duration{
		at:                            time.Hour,
		at.Add(time.Minute):           59 * time.Minute,
		at.Add(2 * time.Hour):         -time.Hour,
		at.Add(-24 * 365 * time.Hour): time.Hour, // the clock was set back
	} {
		if got := q.timeLeft(now); got != want {
			t.Errorf("%v: %v, want %v", now, got, want)
		}
	}
}

// A restarted agent that asks again gets the answer that came meanwhile, once.
func TestAskAgain(t *testing.T) {
	s, e := memory.New(), &endRecorder{}
	defer s.Close()
	d := open(t, s, e)
	defer func() { d.Close() }()
	ctx := t.Context()
	a := Draft{From: "t/a", Incarnation: 1, Text: "Really?", Options: []string{"yes", "no"}, Key: "first"}
	first := ask(t, d, a)
	a.Key, a.Incarnation = "second", 2
	if again := ask(t, d, a); again.ID != first.ID || again.State != Open {
		t.Errorf("%+v", again)
	}
	other := a
	other.From = "t/b"
	if q := ask(t, d, other); q.ID == first.ID {
		t.Error("another agent asked the same question")
	}
	if _, err := d.Answer(ctx, first.ID, "no", "ann"); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d = open(t, s, e)
	a.Key = "third"
	if again := ask(t, d, a); again.ID != first.ID || again.Answer != "no" {
		t.Errorf("%+v", again)
	}
	if _, err := d.Take(ctx, "t/a", first.ID); err != nil {
		t.Fatal(err)
	}
	fresh := ask(t, d, a)
	if fresh.ID == first.ID || fresh.State != Open {
		t.Errorf("%+v", fresh)
	}
	// The same key means the same question, even after it has ended.
	a.Key = "first"
	if q := ask(t, d, a); q.ID != first.ID || q.TakenAt.IsZero() {
		t.Errorf("%+v", q)
	}
	a.Text = "Another?"
	if _, _, err := d.Ask(ctx, a); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), first.ID) {
		t.Error(err)
	}
	// A withdrawn or expired question can be asked again.
	if _, err := d.Withdraw(ctx, "t/a", fresh.ID); err != nil {
		t.Fatal(err)
	}
	a.Key, a.Text = "", "Really?"
	if q := ask(t, d, a); q.ID == fresh.ID || q.State != Open {
		t.Errorf("%+v", q)
	}
}

// An agent has access to its own questions only.
func TestOwn(t *testing.T) {
	s, e := memory.New(), &endRecorder{}
	defer s.Close()
	d := open(t, s, e)
	defer d.Close()
	ctx := t.Context()
	q := ask(t, d, Draft{From: "t/a", Text: "Really?"})
	_, get := d.Get("t/b", q.ID)
	_, take := d.Take(ctx, "t/b", q.ID)
	_, withdraw := d.Withdraw(ctx, "t/b", q.ID)
	_, wait := d.Wait(ctx, "t/b", q.ID)
	_, none := d.Answer(ctx, "q-9", "x", "ann")
	_, word := d.Get("", "x\x1b")
	for what, err := range map[string]error{"get": get, "take": take, "withdraw": withdraw, "wait": wait, "none": none, "word": word} {
		if !errors.Is(err, ErrNotFound) || err.Error() != plaintext.Line(err.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, by := range []string{"", ByDeadline, strings.Repeat("x", MaxOption+1), "a\nb"} {
		if _, err := d.Answer(ctx, q.ID, "x", by); !errors.Is(err, ErrInvalid) {
			t.Errorf("by %.10q: %v", by, err)
		}
	}
	if got, err := d.Get("", "1"); err != nil || got.State != Open {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLimits(t *testing.T) {
	s, e := memory.New(), &endRecorder{}
	defer s.Close()
	d := open(t, s, e)
	defer d.Close()
	for i := range MaxOpen {
		ask(t, d, Draft{From: "t/a", Text: fmt.Sprint(i)})
	}
	if _, _, err := d.Ask(t.Context(), Draft{From: "t/a", Text: "more"}); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "100") {
		t.Fatal(err)
	}
	if q := ask(t, d, Draft{From: "t/a", Text: "5"}); q.ID != "q-6" {
		t.Errorf("one that is open: %+v", q)
	}
	ask(t, d, Draft{From: "t/b", Text: "more"})
	if oldest, open := d.Pending("t/a"); oldest.ID != "q-1" || open != MaxOpen {
		t.Errorf("%+v, %d", oldest, open)
	}
	for i := range MaxEnded + 20 {
		q := ask(t, d, Draft{From: "t/b", Text: fmt.Sprint(i)})
		if _, err := d.Withdraw(t.Context(), "t/b", q.ID); err != nil {
			t.Fatal(err)
		}
	}
	if all := d.List("t/b", true); len(all) > MaxEnded+1 || all[0].State != Open || len(d.List("t/b", false)) != 1 {
		t.Errorf("%d are kept, the first is %+v", len(all), all[0])
	}
	if all := d.List("", false); len(all) != MaxOpen+1 || all[0].ID != "q-1" || all[MaxOpen].ID != "q-101" {
		t.Errorf("%d are open", len(all))
	}
}

// If many people answer at once, one answer counts, and the others learn whose.
func TestOneAnswer(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e := &endRecorder{}
	d := open(t, db, e)
	defer d.Close()
	q := ask(t, d, Draft{From: "t/a", Text: "Really?"})
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { _, errs[i] = d.Answer(t.Context(), q.ID, fmt.Sprint("answer ", i), fmt.Sprint("person", i)) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			if winner >= 0 {
				t.Errorf("%d and %d have won", winner, i)
			}
			winner = i
		}
	}
	if winner < 0 {
		t.Fatal(errs)
	}
	for i, err := range errs {
		if i != winner && (!errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), fmt.Sprintf("by person%d with \"answer %d\"", winner, winner))) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got, want := e.take(), fmt.Sprintf(`q-1 answered "answer %d" by "person%d", waited false`, winner, winner); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := memory.New(), &endRecorder{}
		defer s.Close()
		d := open(t, s, e)
		defer func() { d.Close() }()
		want := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := e.take(); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		later := ask(t, d, Draft{From: "t/a", Text: "later", Within: time.Hour})
		ask(t, d, Draft{From: "t/a", Text: "sooner", Default: "yes", Within: time.Minute})
		ask(t, d, Draft{From: "t/a", Text: "never"})
		answered := ask(t, d, Draft{From: "t/a", Text: "in time", Within: 2 * time.Minute})
		time.Sleep(time.Minute - 1)
		want("before", "")
		time.Sleep(time.Nanosecond)
		want("at the first", `q-2 answered "yes" by "deadline", waited false`)
		if _, err := d.Answer(t.Context(), answered.ID, "x", "ann"); err != nil {
			t.Fatal(err)
		}
		want("answered", `q-4 answered "x" by "ann", waited false`)
		time.Sleep(time.Minute)
		want("its deadline", "")

		var got Question
		go func() { got, _ = d.Wait(t.Context(), "t/a", later.ID) }()
		time.Sleep(time.Hour)
		want("at the second", `q-1 expired "" by "", waited true`)
		if got.State != Expired || d.Waited(later.ID) {
			t.Errorf("%+v", got)
		}

		// A deadline that passes without a daemon takes effect when one starts.
		ask(t, d, Draft{From: "t/a", Text: "alone", Default: "yes", Within: time.Minute})
		ask(t, d, Draft{From: "t/a", Text: "with time", Within: time.Hour})
		d.Close()
		time.Sleep(30 * time.Minute)
		want("closed", "")
		d = open(t, s, e)
		want("opened again", `q-5 answered "yes" by "deadline", waited false`)
		time.Sleep(30*time.Minute - 1)
		want("before the other", "")
		time.Sleep(2 * time.Nanosecond)
		want("the other", `q-6 expired "" by "", waited false`)
		if still, err := d.Get("t/a", "q-3"); err != nil || still.State != Open {
			t.Errorf("%+v, %v", still, err)
		}
	})
}

// Setting the clock back while no daemon runs does not postpone a deadline.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := memory.New(), &endRecorder{}
		defer s.Close()
		d := open(t, s, e)
		q := ask(t, d, Draft{From: "t/a", Text: "x", Within: time.Minute})
		d.Close()
		records, _, err := s.Snapshot(t.Context(), "questions")
		if err != nil {
			t.Fatal(err)
		}
		// As if it had been asked a year later.
		year := strings.NewReplacer("2000-01-01T", "2001-01-01T").Replace(string(records[0].Value))
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: records[0].Key, Value: []byte(year)}}); err != nil {
			t.Fatal(err)
		}
		d = open(t, s, e)
		defer d.Close()
		if got, _ := d.Get("", q.ID); got.At.Year() != 2001 {
			t.Fatalf("%+v", got)
		}
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		if got := e.take(); got == "" {
			t.Error("it is still open")
		}
	})
}

// A deadline that cannot be stored is retried.
func TestDeadlineOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, e := memory.New(), &endRecorder{}
		defer inner.Close()
		s := storetest.NewFaults(inner, 1, storetest.Rates{})
		d := open(t, s, e)
		defer d.Close()
		ask(t, d, Draft{From: "t/a", Text: "x", Within: time.Minute})
		s.Fail(store.ErrFull)
		time.Sleep(time.Hour)
		if tries := s.Counts().Failed; tries < 100 || tries > 2000 {
			t.Errorf("%d tries in an hour", tries)
		}
		s.Fail(nil)
		time.Sleep(maxRetry)
		synctest.Wait()
		if got := e.take(); got != `q-1 expired "" by "", waited false` {
			t.Error(got)
		}
	})
}

func TestWait(t *testing.T) {
	s, e := memory.New(), &endRecorder{}
	defer s.Close()
	d := open(t, s, e)
	defer d.Close()
	q := ask(t, d, Draft{From: "t/a", Text: "x"})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := d.Wait(ctx, "t/a", q.ID); err != gone || d.Waited(q.ID) {
		t.Errorf("%v, waited %v", err, d.Waited(q.ID))
	}
	const many = 5
	answers := make(chan string, many)
	for range many {
		go func() {
			q, err := d.Wait(t.Context(), "t/a", q.ID)
			answers <- fmt.Sprint(q.Answer, " ", err)
		}()
	}
	for !d.Waited(q.ID) {
		time.Sleep(time.Millisecond)
	}
	if _, err := d.Answer(t.Context(), q.ID, "42", "ann"); err != nil {
		t.Fatal(err)
	}
	for range many {
		if got := <-answers; got != "42 <nil>" {
			t.Error(got)
		}
	}
	if got := e.take(); !strings.HasSuffix(got, "waited true") {
		t.Error(got)
	}
	if now, err := d.Wait(t.Context(), "t/a", q.ID); err != nil || now.Answer != "42" {
		t.Errorf("%+v, %v", now, err)
	}
}

// typesOnly is a Log that stores the types of events.
type typesOnly struct{}

func (typesOnly) Op(e event.Event) store.Op {
	return store.Op{Kind: store.Append, Key: "log", Value: []byte(e.Type)}
}

// The event of a change is written together with the change.
func TestEvents(t *testing.T) {
	s := memory.New()
	defer s.Close()
	d, err := OpenService(t.Context(), Options{Store: s, Log: typesOnly{}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 { // the second call returns the same question
		ask(t, d, Draft{From: "t/a", Text: "x", Key: "k"})
	}
	d.Answer(t.Context(), "q-1", "y", "ann")
	d.Answer(t.Context(), "q-1", "z", "bob")
	d.Take(t.Context(), "t/a", "q-1")
	records, _, _ := s.Snapshot(t.Context(), "log")
	var log []string
	for _, r := range records {
		log = append(log, string(r.Value))
	}
	if got := strings.Join(log, ", "); got != "question.asked, question.answered" {
		t.Error(got)
	}
}

func TestBadRecords(t *testing.T) {
	s, e := memory.New(), &endRecorder{}
	defer s.Close()
	d := open(t, s, e)
	for i := range 5 {
		ask(t, d, Draft{From: "t/a", Text: fmt.Sprint(i)})
	}
	d.Close()
	for n, value := range map[uint64]string{1: "{}", 2: "", 3: `{"id":"q-3","from":"t/a","state":"lost"}`, 4: `{"id":"q-4","from":"t/a","state":"open","text":"4","deadline":"0001-01-01T00:00:01Z"}`} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: store.SequenceKey("questions", n), Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	d = open(t, s, e)
	defer d.Close()
	if q, err := d.Wait(t.Context(), "t/a", "q-4"); err != nil || q.State != Expired { // its deadline is long ago
		t.Errorf("%+v, %v", q, err)
	}
	if all := d.List("", true); len(all) != 2 || all[1].ID != "q-5" || all[0].Options == nil {
		t.Errorf("%+v", all)
	}
	if q := ask(t, d, Draft{From: "t/a", Text: "new"}); q.ID != "q-6" {
		t.Errorf("%+v", q)
	}
}
