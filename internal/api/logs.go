package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultLines is how much of a log is shown to who does not say.
const defaultLines = 100

// maxAfter bounds the positions in a request, in bytes: it has to fit into maxHeader.
const maxAfter = 12 << 10

func (c *call) logs() error {
	q, err := c.query.logs()
	if err != nil {
		return err
	}
	return stream(c, func(ctx context.Context) iter.Seq2[LogLine, error] { return c.service.Logs(ctx, q) }, nil)
}

// logs is the LogQuery that a query states.
func (q query) logs() (LogQuery, error) {
	l := LogQuery{Paths: q.all("path"), Lines: defaultLines, Grep: q.text("grep"), Follow: q.flag("follow")}
	if since := q.text("since"); since != "" {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			return l, fmt.Errorf("%w: parameter since is %.100q, expected a time as in RFC 3339", ErrInvalid, since)
		}
		l.Since = at
	}
	if _, err := regexp.Compile(l.Grep); err != nil {
		return l, fmt.Errorf("%w: parameter grep: %w", ErrInvalid, err)
	}
	switch n := q.number("n", defaultLines); {
	case n > maxLines:
		return l, fmt.Errorf("%w: parameter n is %d, expected at most %d", ErrInvalid, n, maxLines)
	case q.text("n") == "" && (!l.Since.IsZero() || l.Grep != ""), n == maxLines:
		l.Lines = -1
	default:
		l.Lines = int(n)
	}
	for _, after := range q.all("after") {
		position, path, ok := strings.Cut(after, " ")
		if !ok || path == "" {
			return l, fmt.Errorf("%w: parameter after is %.100q, expected a position and a path", ErrInvalid, after)
		}
		if l.After == nil {
			l.After = make(map[string]string)
		}
		l.After[path] = position
	}
	return l, nil
}

// Logs implements Service. While it follows, it survives the daemon as Events does,
// and neither repeats nor misses a line.
func (c *Client) Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		f := &followingLogs{client: c, q: q, start: time.Now(), yield: yield}
		if err := c.goOn(ctx, q.Follow, &f.connected, f.connection); err != nil && !errors.Is(err, errEnough) {
			yield(LogLine{}, err)
		}
	}
}

// followingLogs is the lines of one call, over any number of connections.
type followingLogs struct {
	connected
	client *Client
	q      LogQuery
	start  time.Time
	live   bool              // all that was there before has come
	after  map[string]string // by path
	yield  func(LogLine, error) bool
}

// values is the query of the next connection.
func (f *followingLogs) values() (url.Values, error) {
	since, lines := f.q.Since, f.q.Lines
	if f.live { // agents that had said nothing by then
		since, lines = f.start, -1
	}
	query := url.Values{"path": f.q.Paths, "follow": {strconv.FormatBool(f.q.Follow)}}
	switch {
	case lines >= 0:
		query.Set("n", strconv.Itoa(lines))
	case since.IsZero() && f.q.Grep == "":
		query.Set("n", strconv.Itoa(maxLines)) // all
	}
	if !since.IsZero() {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	if f.q.Grep != "" {
		query.Set("grep", f.q.Grep)
	}
	size := 0
	for _, path := range slices.Sorted(maps.Keys(f.after)) {
		after := f.after[path] + " " + path
		size += len(url.QueryEscape(after)) + len("&after=")
		query.Add("after", after)
	}
	if size > maxAfter {
		return nil, fmt.Errorf("%w: the output of %d agents is too much to go on with", ErrLost, len(f.after))
	}
	return query, nil
}

// connection yields what comes over one connection: nil when the stream is complete,
// ErrLost when it was cut off.
func (f *followingLogs) connection(ctx context.Context) error {
	query, err := f.values()
	if err != nil {
		f.told = true // it does not become less
		return err
	}
	req, err := f.client.request(ctx, "GET", "/logs", query, nil)
	if err != nil {
		return err
	}
	for m, err := range f.client.stream(req, func() { f.began, f.open = true, true }) {
		if err != nil {
			f.told = m.name == errorName
			return err
		}
		var line LogLine
		if err := json.Unmarshal(m.data, &line); err != nil {
			return err
		}
		if line.Live {
			if f.live {
				continue // on an earlier connection
			}
			f.live = true
		}
		if line.Position != "" {
			if f.after == nil {
				f.after = make(map[string]string)
			}
			f.after[line.Path] = line.Position
		}
		if !f.yield(line, nil) {
			return errEnough
		}
	}
	return nil
}
