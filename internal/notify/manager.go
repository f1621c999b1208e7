// Package notify tells people when they are needed. Decide is the pure part: what is told, when, and what was told
// already. A Manager wakes when something happens, decides, and has messages delivered.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// Options configure a Manager. All are required.
type Options struct {
	Store    store.Store
	Log      *event.Log
	Logger   *slog.Logger
	Settings func() []spec.Notify
	Project  func() string
	// Send delivers a message in bounded time. Its error must not have a secret.
	Send func(context.Context, *spec.Notify, *Message) error
}

// Timing of a Manager.
const (
	settleTime = 250 * time.Millisecond // from an event to the look at what has come of it
	lookPause  = time.Second            // between two looks
	costPause  = 20                     // times as long as a look has taken
	lookAgain  = 5 * time.Second        // after an event, for what takes effect later than it
	maxReport  = time.Minute            // for the report to be made
	maxSend    = 11 * time.Minute       // for a message to be delivered
	saveTime   = 5 * time.Second        // for a state to be written at the end
	maxReason  = 300                    // bytes of an error
)

const prefix = "notify"

// Manager notifies people.
type Manager struct {
	Options
	source  Source        // of Run
	wake    chan struct{} // holds a token when something may have changed
	sending sync.WaitGroup

	mu    sync.Mutex
	sinks map[string]*sink // by name
	seen  time.Time        // see Input
}

// sink is one [[notify]] at work.
type sink struct {
	state   State
	saved   []byte
	sending bool
}

// New returns a Manager that does nothing before Run.
func New(o Options) *Manager {
	return &Manager{Options: o, wake: make(chan struct{}, 1), sinks: map[string]*sink{}}
}

// Changed has the manager look again: the settings may be others.
func (m *Manager) Changed() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run notifies people until ctx ends. Call it once.
func (m *Manager) Run(ctx context.Context, source Source) {
	m.source = source
	if err := m.load(ctx, source.WasDown); err != nil {
		if ctx.Err() == nil {
			m.Logger.Error("cannot read what people were notified of; nobody is notified", "error", err)
		}
		return
	}
	defer m.sending.Wait()
	for ctx.Err() == nil {
		if len(m.Settings()) > 0 {
			m.serve(ctx)
			continue
		}
		m.drop(ctx, nil)
		select {
		case <-m.wake:
		case <-ctx.Done():
		}
	}
}

// load reads the states of a previous daemon.
func (m *Manager) load(ctx context.Context, wasDown *Need) error {
	records, _, err := m.Store.Snapshot(ctx, prefix)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		k := &sink{saved: r.Value}
		if err := json.Unmarshal(r.Value, &k.state); err != nil {
			m.Logger.Warn("cannot read what people were notified of", "key", r.Key, "error", err)
			k = &sink{}
		}
		m.sinks[strings.TrimPrefix(r.Key, prefix+"/")] = k
	}
	if wasDown != nil {
		for _, n := range m.Settings() {
			m.sink(n.Name).state.WasDown = wasDown
		}
	}
	return nil
}

// sink returns the state of a [[notify]]. Needs mu.
func (m *Manager) sink(name string) *sink {
	k := m.sinks[name]
	if k == nil {
		k = &sink{}
		m.sinks[name] = k
	}
	return k
}

// serve notifies people while there are settings.
func (m *Manager) serve(ctx context.Context) {
	following, end := context.WithCancel(ctx)
	events := make(chan struct{}, 1)
	var follower sync.WaitGroup
	follower.Go(func() { m.follow(following, events) })
	defer follower.Wait()
	defer end()
	for ctx.Err() == nil {
		settings := m.Settings()
		if len(settings) == 0 {
			return
		}
		trouble := m.Log.Moved()
		begun := time.Now()
		next := m.look(ctx, settings)
		// Nothing that comes meanwhile is missed: it is in a channel.
		if !wait(ctx, max(lookPause, costPause*time.Since(begun))) {
			return
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-m.wake:
		case <-timer:
		case <-events:
			wait(ctx, settleTime)
			// What an event is about may take effect a little later.
			time.AfterFunc(lookAgain, m.Changed)
		case <-trouble:
			wait(ctx, settleTime)
		case <-ctx.Done():
		}
	}
}

// wait waits for a time; it reports false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// follow puts a token into a channel when an event was written, except for those about notifications.
func (m *Manager) follow(ctx context.Context, events chan<- struct{}) {
	after := m.source.After
	for ctx.Err() == nil {
		for e, err := range m.Log.Follow(ctx, after, event.Filter{}) {
			if err != nil {
				break
			}
			after = max(after, e.Seq)
			if e.Type == event.NotifySent || e.Type == event.NotifyFailed {
				continue
			}
			select {
			case events <- struct{}{}:
			default:
			}
		}
		wait(ctx, lookAgain) // the store has failed
	}
}

// Seen notes that a person has just done something where needs are shown.
func (m *Manager) Seen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = time.Now()
}

// look decides for all settings, and begins to send. It returns when to look again; zero for never.
func (m *Manager) look(ctx context.Context, settings []spec.Notify) (next time.Time) {
	needs, err := m.source.Needs(ctx)
	if err != nil {
		if ctx.Err() == nil {
			m.Logger.Warn("cannot find out what needs people", "error", err)
		}
		return time.Now().Add(lookAgain)
	}
	m.drop(ctx, settings)
	m.mu.Lock()
	defer m.mu.Unlock()
	in := Input{Now: time.Now(), Project: m.Project(), Needs: needs, Seen: m.seen}
	for i := range settings {
		n := &settings[i]
		k := m.sink(n.Name)
		if k.sending {
			continue // its end is a reason to look
		}
		d := Decide(n, k.state, in)
		k.state = d.State
		m.save(ctx, n.Name, k)
		switch {
		case d.Message != nil:
			m.send(ctx, n, k, func(context.Context) (*Message, error) { return d.Message, nil })
		case d.Report:
			m.send(ctx, n, k, func(ctx context.Context) (*Message, error) {
				ctx, cancel := context.WithTimeout(ctx, maxReport)
				defer cancel()
				text, err := m.source.Report(ctx, d.ReportSince)
				if err != nil {
					return nil, fmt.Errorf("making the report: %w", err)
				}
				return newReport(n, in.Project, d.reportDate, time.Now(), text), nil
			})
		default:
			next = earlierOf(next, d.Next)
		}
	}
	return next
}

// send delivers a message in the background. Needs mu.
func (m *Manager) send(ctx context.Context, n *spec.Notify, k *sink, compose func(context.Context) (*Message, error)) {
	k.sending = true
	m.sending.Go(func() {
		message, err := compose(ctx)
		if err == nil {
			err = m.deliver(ctx, n, message)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		defer m.Changed()
		k.sending = false
		switch {
		case err == nil:
			k.state = k.state.Sent(message, time.Now())
			m.save(ctx, n.Name, k, sentEvent(n, message))
		case ctx.Err() == nil:
			k.state = k.state.Failed(plaintext.OneLine(err.Error(), maxReason), time.Now())
			m.save(ctx, n.Name, k, failedEvent(n, k.state))
		}
	})
}

// deliver delivers a message in bounded time.
func (m *Manager) deliver(ctx context.Context, n *spec.Notify, message *Message) error {
	ctx, cancel := context.WithTimeout(ctx, maxSend)
	defer cancel()
	return m.Send(ctx, n, message)
}

func sentEvent(n *spec.Notify, message *Message) event.Event {
	e := event.Event{Type: event.NotifySent, Actor: "controller",
		Message: fmt.Sprintf("people were notified via %s (%s): %s", n.Via, n.Name, message.Title)}
	return e.With(event.Notified{Notify: n.Name, Via: string(n.Via), Kind: message.Kind, ID: message.ID,
		Needs: len(message.keys)})
}

func failedEvent(n *spec.Notify, s State) event.Event {
	e := event.Event{Type: event.NotifyFailed, Actor: "controller",
		Message: fmt.Sprintf("people could not be notified via %s (%s): %s", n.Via, n.Name, s.LastError)}
	return e.With(event.NotNotified{Notify: n.Name, Via: string(n.Via), Error: s.LastError, Failures: s.Failures,
		RetryAt: s.RetryAt.UTC()})
}

// save writes a state that has changed, with events about it. A state that the store does not take is written with the
// next change. Needs mu.
func (m *Manager) save(ctx context.Context, name string, k *sink, events ...event.Event) {
	value, err := json.Marshal(k.state)
	if err != nil {
		m.Logger.Error("cannot encode what people were notified of", "error", err)
		return
	}
	var ops []store.Op
	if !bytes.Equal(value, k.saved) {
		ops = append(ops, store.Op{Kind: store.Put, Key: prefix + "/" + name, Value: value})
	}
	for _, e := range events {
		ops = append(ops, m.Log.Op(e))
	}
	if len(ops) == 0 {
		return
	}
	// What was sent is noted also at the end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if _, err := m.Store.Apply(ctx, store.Fence{}, nil, ops); err != nil {
		m.Logger.Warn("cannot write what people were notified of", "error", err)
		for _, e := range events {
			m.Log.Append(e)
		}
		return
	}
	k.saved = value
}

// drop forgets what was told by settings that are gone.
func (m *Manager) drop(ctx context.Context, settings []spec.Notify) {
	m.mu.Lock()
	defer m.mu.Unlock()
	declared := map[string]bool{}
	for _, n := range settings {
		declared[n.Name] = true
	}
	for name, k := range m.sinks {
		if declared[name] || k.sending {
			continue
		}
		delete(m.sinks, name)
		if k.saved == nil {
			continue
		}
		_, err := m.Store.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Delete, Key: prefix + "/" + name}})
		if err != nil && ctx.Err() == nil {
			m.Logger.Warn("cannot remove what people were notified of", "notify", name, "error", err)
		}
	}
}
