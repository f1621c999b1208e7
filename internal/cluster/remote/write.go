package remote

import (
	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// write writes what there is to write, until the connection is over.
func (c *conn) write() {
	for {
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
		for {
			batch, err := c.batch()
			if err != nil {
				c.s.o.Logger.Error("cannot answer another node", "error", err)
				return
			}
			if len(batch) == 0 {
				break
			}
			if c.out.Send(batch) != nil {
				return
			}
		}
	}
}

// batch returns the next frames. Answers come first: a change that came later than one is sent later.
func (c *conn) batch() (frames []byte, err error) {
	for len(frames) < batchSize {
		o := c.next()
		if o == nil {
			return frames, nil
		}
		if o.of != nil {
			o.State = o.of.state()
		}
		frame, err := message.Encode(&o.Answer)
		if err != nil {
			o.Answer = message.Answer{ID: o.ID, Failure: message.NewFailure(err)}
			if frame, err = message.Encode(&o.Answer); err != nil {
				return nil, err
			}
		}
		frames = append(frames, frame...)
		c.wrote(o)
	}
	return frames, nil
}

// next returns what is to be written next; nil if there is nothing.
func (c *conn) next() *outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.queue) > 0:
		o := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		return o
	case len(c.ready) > 0:
		s := c.ready[0]
		c.ready = c.ready[1:]
		s.queued = false
		return &outgoing{Answer: message.Answer{ID: s.id, More: true, Texts: []string{s.text}}}
	case len(c.dirty) > 0:
		h := c.dirty[0]
		if c.dirty = c.dirty[1:]; len(c.dirty) == 0 {
			c.dirty = nil
		}
		c.watched[h] = false
		return &outgoing{of: h}
	}
	return nil
}

// wrote forgets a request that was answered, and a session whose end was told.
func (c *conn) wrote(o *outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.ends {
		delete(c.requests, o.ID)
		c.pending -= o.size
	}
	if o.of != nil && o.State != nil && o.State.Life == runtime.Dead && !c.watched[o.of] {
		delete(c.watched, o.of)
	}
}

// stream begins the stream of a request. Its changes are sent until end is called.
func (c *conn) stream(id uint64) (change func(text string), end func()) {
	s := &stream{id: id}
	c.mu.Lock()
	c.streams[id] = s
	c.mu.Unlock()
	return func(text string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if s.text = text; !s.queued && c.streams[id] == s {
				s.queued = true
				c.ready = append(c.ready, s)
				c.rouse()
			}
		}, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.streams, id)
		}
}
