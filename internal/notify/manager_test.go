package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// world is a fleet that needs people, and the people.
type world struct {
	t     *testing.T
	store store.Store

	mu       sync.Mutex
	settings []spec.Notify
	needs    []Need
	looks    int
	sent     []string // by each message: the name, a colon, and the subjects
	fails    int      // deliveries that fail next
	hangs    bool     // deliveries do not end
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: memory.New(), settings: []spec.Notify{{Name: "n", Via: spec.Webhook,
		On: spec.DefaultNotifyKinds(), Digest: spec.DefaultDigest}}}
}

// daemon is a Manager that runs.
type daemon struct {
	*world
	*Manager
	log *event.Log
	end func()
}

// run runs a Manager until end is called.
func (w *world) run(wasDown *Need) *daemon {
	w.t.Helper()
	log, err := event.Open(event.Config{Store: w.store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	m := New(Options{Store: w.store, Log: log, Logger: slog.New(slog.DiscardHandler), Send: w.send,
		Project: func() string { return "t" },
		Settings: func() []spec.Notify {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.settings)
		}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	_, after, err := log.Last(ctx, 0, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(ended)
		m.Run(ctx, Source{WasDown: wasDown, After: after,
			Needs: func(context.Context) ([]Need, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.looks++
				return slices.Clone(w.needs), nil
			},
			Report: func(_ context.Context, since time.Time) (string, error) {
				return "since " + since.Format(time.DateTime), nil
			},
		})
	}()
	return &daemon{w, m, log, func() {
		cancel()
		<-ended
		if err := log.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}}
}

func (w *world) send(ctx context.Context, n *spec.Notify, m *Message) error {
	w.mu.Lock()
	hangs, fails := w.hangs, w.fails > 0
	if fails {
		w.fails--
	}
	if !hangs && !fails {
		w.sent = append(w.sent, n.Name+": "+strings.Join(append(slices.Clone(m.keys), m.date), " "))
	}
	w.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	case fails:
		return errors.New("status 500")
	}
	return nil
}

// happens changes the needs, with an event.
func (d *daemon) happens(needs ...Need) {
	d.world.mu.Lock()
	d.world.needs = needs
	d.world.mu.Unlock()
	d.log.Append(event.Event{Type: event.QuestionAsked, Message: "something"})
}

// wants expects the messages since the last call, after a time.
func (w *world) wants(after time.Duration, sent ...string) {
	w.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.sent, sent) {
		w.t.Fatalf("sent %q, want %q", w.sent, sent)
	}
	w.sent = nil
}

// events returns the messages of the events of a type.
func (d *daemon) events(typ event.Type) (all []string) {
	d.t.Helper()
	if err := d.log.Sync(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	found, _, err := d.log.Read(d.t.Context(), 0, event.Filter{Types: []string{string(typ)}}, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range found {
		all = append(all, e.Message+" "+string(e.Data))
	}
	return all
}

func TestManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.run(nil)
		time.Sleep(time.Minute)
		d.happens(question("q-1", "t/a"))
		w.wants(9 * time.Second)
		w.wants(3*time.Second, "n: q-1 ")
		d.happens(question("q-1", "t/a"), ill("t/b", "quarantined"))
		time.Sleep(time.Second)
		d.happens(question("q-1", "t/a"), ill("t/b", "quarantined"), ill("t/c", "quarantined"))
		w.wants(12*time.Second, "n: t/b t/c ")
		want := "people were notified via webhook (n): t: t/a asks: which? "
		if all := d.events(event.NotifySent); len(all) != 2 || !strings.HasPrefix(all[0], want) ||
			!strings.Contains(all[1], `"message":"needs"`) || !strings.Contains(all[1], `"needs":2`) {
			t.Errorf("%q", all)
		}
		d.end()
		w.needs = append(w.needs, ill("t/d", "given_up")) // while there is no daemon
		d = w.run(&Need{Subject: "daemon", State: "was_down"})
		w.wants(12*time.Second, "n: daemon t/d ")
		d.end()
		d = w.run(nil)
		w.wants(time.Hour)
		d.end()
	})
}

// People are told a minute after they have looked, if it is still there.
func TestManagerPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.run(nil)
		d.Seen()
		d.happens(question("q-1", "t/a"))
		w.wants(50 * time.Second)
		if all := d.List(); len(all) != 1 || time.Until(all[0].HeldTill) != 10*time.Second {
			t.Errorf("%+v", all)
		}
		d.Seen()
		w.wants(50 * time.Second)
		w.wants(12*time.Second, "n: q-1 ")
		if all := d.List(); !all[0].HeldTill.IsZero() {
			t.Errorf("%+v", all)
		}
		d.end()
	})
}

// Nothing is looked at while nothing happens, and no more than once a second while much does.
func TestManagerLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.run(nil)
		defer d.end()
		time.Sleep(time.Hour)
		looks := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := w.looks
			w.looks = 0
			return n
		}
		if n := looks(); n != 1 {
			t.Errorf("%d looks without an event", n)
		}
		for range 1000 {
			d.happens()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		if n := looks(); n < 8 || n > 30 {
			t.Errorf("%d looks in 10 s with 1,000 events", n)
		}
		w.mu.Lock()
		settings := w.settings
		w.settings = nil
		w.mu.Unlock()
		d.Changed()
		time.Sleep(time.Minute)
		looks()
		d.happens(question("q-1", "t/a"))
		time.Sleep(time.Hour)
		if n := looks(); n != 0 {
			t.Errorf("%d looks without settings", n)
		}
		w.mu.Lock()
		w.settings = settings
		w.mu.Unlock()
		d.Changed()
		w.wants(12*time.Second, "n: q-1 ")
	})
}

// A delivery that fails is repeated, with events; one that hangs holds up no other [[notify]].
func TestManagerFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails = 3
		w.needs = []Need{question("q-1", "t/a")}
		d := w.run(nil)
		w.wants(10*time.Second + 5*time.Second + 10*time.Second + 19*time.Second)
		w.wants(3*time.Second, "n: q-1 ")
		all := d.events(event.NotifyFailed)
		if len(all) != 3 || !strings.Contains(all[2], "people could not be notified via webhook (n): status 500 ") ||
			!strings.Contains(all[2], `"failures":3`) {
			t.Errorf("%q", all)
		}
		if i := d.List()[0]; i.Error != "" || i.LastSent.IsZero() || i.Pending != 0 || !i.RetryAt.IsZero() {
			t.Errorf("%+v", i)
		}
		w.mu.Lock()
		w.hangs = true
		w.mu.Unlock()
		d.happens(question("q-2", "t/a"))
		w.wants(time.Minute)
		second := w.settings[0]
		second.Name = "m"
		w.mu.Lock()
		w.settings, w.hangs = append(w.settings, second), false
		w.mu.Unlock()
		d.Changed()
		w.wants(15*time.Second, "m: q-2 ")
		if all := d.List(); all[0].Pending != 1 || all[1].Pending != 0 {
			t.Errorf("%+v", all)
		}
		d.end() // also the delivery that hangs; it is not a failure
		d = w.run(nil)
		defer d.end()
		w.wants(12*time.Second, "n: q-2 ")
		if all := d.events(event.NotifyFailed); len(all) != 3 {
			t.Errorf("%q", all)
		}
	})
}

// What was told by settings that are gone is forgotten.
func TestManagerDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.needs = []Need{question("q-1", "t/a")}
		d := w.run(nil)
		defer d.end()
		w.wants(12*time.Second, "n: q-1 ")
		w.mu.Lock()
		settings := w.settings
		w.settings = nil
		w.mu.Unlock()
		d.Changed()
		w.wants(time.Minute)
		if records, _, err := w.store.Snapshot(t.Context(), prefix); err != nil || len(records) != 0 {
			t.Errorf("%v, %v", records, err)
		}
		w.mu.Lock()
		w.settings = settings
		w.mu.Unlock()
		d.Changed()
		w.wants(12*time.Second, "n: q-1 ")
	})
}

func TestManagerReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := spec.Clock(7*60 + 30)
		w.settings[0].Report = &at
		d := w.run(nil)
		defer d.end()
		day := time.Now()
		if spec.ClockOf(day) >= at {
			day = day.AddDate(0, 0, 1)
		}
		due := time.Date(day.Year(), day.Month(), day.Day(), 7, 30, 0, 0, time.Local)
		w.mu.Lock()
		w.fails = 1
		w.mu.Unlock()
		w.wants(time.Until(due))
		w.wants(10*time.Second, "n: "+day.Format(time.DateOnly))
		w.wants(24*time.Hour - 20*time.Second)
		w.wants(20*time.Second, "n: "+day.AddDate(0, 0, 1).Format(time.DateOnly))
	})
}

func TestManagerTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		second := w.settings[0]
		second.Name, second.Via = "phone", spec.Ntfy
		w.settings = append(w.settings, second)
		d := w.run(nil)
		defer d.end()
		w.mu.Lock()
		w.fails = 1
		w.mu.Unlock()
		r, err := d.Test(t.Context(), "n")
		if err != nil || !slices.Equal(r, []TestResult{{Name: "n", Via: "webhook", Error: "status 500"}}) {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err = d.Test(t.Context(), ""); err != nil || len(r) != 2 || r[1].Name != "phone" || r[1].Error != "" {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = d.Test(t.Context(), "phnoe")
		if !errors.Is(err, ErrNotFound) || !strings.Contains(fmt.Sprint(err), `did you mean "phone"?`) {
			t.Errorf("%v", err)
		}
		if all := d.List(); all[0].Error != "" || !all[0].LastSent.IsZero() {
			t.Errorf("a test is taken for a message: %+v", all)
		}
	})
}
