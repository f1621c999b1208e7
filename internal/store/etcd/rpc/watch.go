package rpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

var bidirectional = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// Watch is a watch of a range.
type Watch struct {
	client *Client
	stream grpc.ClientStream
	token  string
	rest   []Event // of the last transaction, of which there may be more
}

// Changes are those of some transactions, in their order. Those of one transaction are together. None means that all
// changes up to the revision of the header were received.
type Changes struct {
	Header
	Events []Event
}

// Watch begins a watch of the changes of a range from a revision on. It waits for a member that can be reached. The
// watch ends with the context.
func (c *Client) Watch(ctx context.Context, key, end string, from int64) (*Watch, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	w := &Watch{client: c, token: token}
	w.stream, err = c.conn.NewStream(withMetadata(ctx, token), &bidirectional, "/etcdserverpb.Watch/Watch",
		grpc.WaitForReady(true))
	if err != nil {
		return nil, w.end(toError(err))
	}
	// An error of sending is only that the stream has ended; receiving says why.
	_ = w.stream.SendMsg(watchRequest{key: key, end: end, from: from})
	return w, nil
}

// RequestProgress has etcd tell the current revision, if all changes up to there were sent. It may be called while
// Receive waits, but only once at a time.
func (w *Watch) RequestProgress() error { return toError(w.stream.SendMsg(progressRequest{})) }

// Receive waits for changes. After an error there are none; it is ErrCompacted if etcd no longer has all of them.
func (w *Watch) Receive() (Changes, error) {
	for {
		var a watchAnswer
		err := toError(w.stream.RecvMsg(&a))
		switch {
		case err != nil:
			return Changes{}, w.end(err)
		case a.compacted != 0:
			return Changes{}, ErrCompacted
		case a.canceled:
			return Changes{}, w.end(canceled(a.reason))
		case a.created || len(a.events) == 0 && a.Revision == 0:
			continue
		}
		a.events = append(w.rest, a.events...)
		w.rest = nil
		if a.fragment {
			a.events, w.rest = cutLast(a.events)
			if size(w.rest) > maxAnswer {
				return Changes{}, malformed("a transaction that does not end")
			}
			if len(a.events) == 0 {
				continue
			}
		}
		return Changes{a.Header, a.events}, nil
	}
}

// cutLast cuts the events of the last transaction off.
func cutLast(events []Event) (before, last []Event) {
	i := len(events)
	for i > 0 && events[i-1].Revision == events[len(events)-1].Revision {
		i--
	}
	return events[:i], slices.Clone(events[i:])
}

// size returns about how many bytes events take.
func size(events []Event) (n int) {
	const each = 100
	for _, e := range events {
		n += each + len(e.Key) + len(e.Value)
	}
	return n
}

// canceled returns the error for a reason that is the text of an error of gRPC, or of etcd.
func canceled(reason string) error {
	for _, err := range []Error{ErrInvalidToken, ErrOldAuthRevision, ErrUserEmpty, ErrNoPermission} {
		if strings.HasSuffix(reason, err.Text) {
			return err
		}
	}
	return Error{codes.Canceled, plaintext.OneLine("etcd has ended the watch: "+reason, maxText)}
}

// end makes the next watch use a new token if that of this one was refused.
func (w *Watch) end(err error) error {
	if isStale(err) {
		w.client.login.drop(w.token)
	}
	return err
}
