package web

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxStreams  = 128
	maxItems    = 400              // items of a list in one message
	writeTime   = 10 * time.Second // for a browser to read a message
	silenceTime = 15 * time.Second // after which a comment keeps the connection alive
)

// patch is a message of a stream: what of a page has changed.
type patch struct {
	Parts map[string]template.HTML `json:"parts,omitempty"` // by the ids of their elements
	Lists map[string][]string      `json:"lists,omitempty"` // the ids of the children of elements, in order
	// Items are added to a list: in front of it if First is set.
	List     string          `json:"list,omitempty"`
	First    bool            `json:"first,omitempty"`
	Items    []template.HTML `json:"items,omitempty"`
	Position string          `json:"position,omitempty"` // the position in output after the items
	// Down says why the page cannot be kept up to date; it is empty when it can. Nil if nothing has changed.
	Down *string `json:"down,omitempty"`
}

// stream keeps one page of a browser up to date.
type stream struct {
	s      *Server
	v      view
	q      query
	w      http.ResponseWriter
	rc     *http.ResponseController
	have   string                   // digest of what the browser has; empty if that is not known
	after  since                    // what it has of the list that is followed
	sent   map[string]template.HTML // what it has been sent, by the ids of parts
	lists  map[string][]string
	down   string
	follow *follow

	terminal *terminal // whose screen is in the page; nil for none
	drawn    <-chan struct{}
	release  func()
}

// live streams the changes of a page.
func (s *Server) live(w http.ResponseWriter, r *http.Request, who visitor) {
	params := r.URL.Query()
	at, err := url.Parse(params.Get("page"))
	if err != nil {
		at = new(url.URL)
	}
	v, rest, ok := s.pages.find(at.Path)
	if !ok {
		http.Error(w, "expected the path of a page", http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	st := &stream{
		s: s, v: v, q: query{rest: rest, values: at.Query(), role: who.role, parts: true},
		w: w, rc: http.NewResponseController(w), release: func() {}, have: params.Get("digest"),
		after: since{position: params.Get("position")},
	}
	number := params.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" { // the browser has connected again by itself
		number, st.have = last, ""
	}
	st.after.event, _ = strconv.ParseUint(number, 10, 64)
	w.Header().Set("Content-Type", "text/event-stream")
	st.rc.SetReadDeadline(time.Time{}) // it says nothing more
	if st.send(0, nil) == nil {
		st.run(ctx)
	}
}

// run sends changes until ctx ends or the browser does not read.
func (st *stream) run(ctx context.Context) {
	defer st.s.pages.hub.watch()()
	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { st.release() }()
	silence := time.NewTicker(silenceTime)
	defer silence.Stop()
	pause := time.NewTimer(minInterval)
	defer pause.Stop()

	_, changed := st.s.pages.hub.state()
	err := st.update(ctx, moment{last: st.after.event})
	items, ready := make(chan item, maxItems), false
	for started := false; err == nil; {
		if !started && st.follow != nil {
			started = true
			following.Go(func() { st.read(ctx, items) })
		}
		wake, in, drawn := changed, items, st.drawn
		if !ready {
			wake, in, drawn = nil, nil, nil
		}
		select {
		case <-pause.C:
			ready = true
			continue
		case <-wake:
			var now moment
			now, changed = st.s.pages.hub.state()
			err = st.update(ctx, now)
		case it := <-in:
			err = st.add(it, items)
		case <-drawn:
			err = st.draw()
		case <-silence.C:
			err = st.send(0, nil)
			continue
		case <-ctx.Done():
			return
		}
		ready = false
		pause.Reset(minInterval)
	}
}

// read sends the items of the list that the page follows to a channel, until ctx ends. While the daemon does not
// answer, it tries again.
func (st *stream) read(ctx context.Context, items chan<- item) {
	for after := st.after; ; {
		for it, err := range st.follow.items(ctx, after) {
			if err != nil {
				break
			}
			after = since{max(after.event, it.event), it.position}
			select {
			case items <- it:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(retryTime):
		case <-ctx.Done():
			return
		}
	}
}

// update sends the parts of the page that have changed.
func (st *stream) update(ctx context.Context, now moment) error {
	st.q.at = now.number
	p, err := st.v.load(ctx, st.q)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		err = now.down
	}
	changes := &patch{Parts: make(map[string]template.HTML), Lists: make(map[string][]string)}
	down := ""
	if err != nil {
		down = fmt.Sprintf("This page is not up to date: %v", err)
	}
	if down != st.down {
		changes.Down, st.down = &down, down
	}
	if p != nil {
		st.watch(p.terminal)
		st.compare(p, changes)
	}
	if len(changes.Parts) == 0 && len(changes.Lists) == 0 && changes.Down == nil {
		return nil
	}
	last := now.last
	if st.follow != nil { // a later number would skip items that were not sent yet
		last = st.after.event
	}
	return st.send(last, changes)
}

// watch begins to watch the terminal of an agent, unless it does.
func (st *stream) watch(path string) {
	if path == "" || st.terminal != nil {
		return
	}
	st.terminal, st.release = st.s.pages.terminals.watch(path)
	if st.terminal != nil { // it may have changed since the page was made
		now := make(chan struct{})
		close(now)
		st.drawn = now
	}
}

// draw sends the screen of the terminal if it has changed.
func (st *stream) draw() error {
	var html template.HTML
	if html, st.drawn = st.terminal.html(); html == st.sent["screen"] {
		return nil
	}
	st.sent["screen"] = html
	return st.send(0, &patch{Parts: map[string]template.HTML{"screen": html}})
}

// compare adds to changes what of the page the browser does not have.
func (st *stream) compare(p *page, changes *patch) {
	first := st.sent == nil
	if first {
		st.follow = p.follow
	}
	sent, lists := make(map[string]template.HTML, len(p.parts)), make(map[string][]string)
	for _, part := range p.parts {
		sent[part.id] = part.html
		if part.list != "" {
			lists[part.list] = append(lists[part.list], part.id)
		}
	}
	if !first || st.have == "" || st.have != digest(p.parts) {
		for id, html := range sent {
			if before, ok := st.sent[id]; !ok || before != html {
				changes.Parts[id] = html
			}
		}
		for id := range st.lists {
			if lists[id] == nil {
				lists[id] = []string{}
			}
		}
		for id, children := range lists {
			if !slices.Equal(children, st.lists[id]) {
				changes.Lists[id] = children
			}
		}
	}
	st.sent, st.lists = sent, lists
}

// add sends an item of the list that the page follows, with those that wait in the channel.
func (st *stream) add(it item, more <-chan item) error {
	p := &patch{List: st.follow.list, First: st.follow.first}
	for {
		p.Items = append(p.Items, it.html)
		p.Position = it.position
		st.after.event = max(st.after.event, it.event)
		if len(p.Items) == maxItems {
			break
		}
		select {
		case it = <-more:
			continue
		default:
		}
		break
	}
	return st.send(st.after.event, p)
}

// send sends a message with the number of the last event that is in the page then, or a comment if p is nil.
func (st *stream) send(last uint64, p *patch) error {
	text := ": still here\n\n"
	if p != nil {
		var data strings.Builder
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false) // it is half as long, and no page contains it
		if err := encoder.Encode(p); err != nil {
			return err
		}
		text = "data: " + data.String() + "\n" // JSON has no line ends but the last
		if last > 0 {
			text = fmt.Sprintf("id: %d\n%s", last, text)
		}
	}
	st.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := io.WriteString(st.w, text); err != nil {
		return err
	}
	return st.rc.Flush()
}
