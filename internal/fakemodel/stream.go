package fakemodel

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// An event is a server-sent event. Its name may be empty.
type event struct {
	name string
	data string
}

// A script is a streamed answer.
type script struct {
	head    []event
	words   []event // one for each word
	rest    []event // after the last word
	end     []event // tells the client that the answer is complete
	garbled event   // is not JSON
	failed  []event // end a stream that fails, for an API that has such an event
}

// A stream sends events.
type stream struct {
	w   http.ResponseWriter
	err error // of the first event that was not sent
}

// openStream begins a stream of events.
func openStream(w http.ResponseWriter, headers header) *stream {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &stream{w: w}
}

// send sends events together.
func (s *stream) send(events ...event) {
	var text strings.Builder
	for _, e := range events {
		if e.name != "" {
			text.WriteString("event: " + e.name + "\n")
		}
		text.WriteString("data: " + e.data + "\n\n")
	}
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text.String())
	}
	if s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
}

// play streams an answer, or as much of it as the step lets through.
func (x *exchange) play(d dialect, t *turn, s said) {
	var words []string
	slow := 0
	if !s.isCall() {
		words, slow = t.words(s.text)
		s.text = strings.Join(words[:slow], "") + s.text
	}
	answer := d.stream(t, s, words)
	out := openStream(x.w, d.headers(t))
	out.send(answer.head...)
	for i, word := range answer.words {
		out.send(word)
		if i < slow && !x.pause(time.Second) {
			break
		}
	}
	if x.gone(out) {
		x.abandon(t)
		return
	}
	switch t.step.name {
	case stepHangMid:
		x.note(http.StatusOK, t.usage, false)
		x.awaitDisconnect()
		return
	case stepCut:
		x.abandon(t)
		return
	case stepBadJSON:
		out.send(answer.garbled)
	case stepErrMid:
		x.note(http.StatusOK, t.usage, false)
		out.send(answer.failed...)
		return
	}
	// A client may start a tool before it has the end, and be killed while the tool runs: it has been served, so the
	// ledger has it before.
	x.note(http.StatusOK, t.usage, true)
	out.send(slices.Concat(answer.rest, answer.end)...)
}

// gone reports whether the client has disconnected.
func (x *exchange) gone(s *stream) bool { return s.err != nil || x.r.Context().Err() != nil }

// abandon ends a stream whose end the client does not get.
func (x *exchange) abandon(t *turn) {
	x.note(http.StatusOK, t.usage, false)
	x.disconnect()
}

// pause waits, and reports whether the client is still connected.
func (x *exchange) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// eventOf returns an event with JSON.
func eventOf(name string, data any) event { return event{name, encode(data)} }
