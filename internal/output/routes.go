package output

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

// Routes for output. The route for terminals is api.HandleAttach.
var (
	logs = api.Stream[logsRequest, Line]{
		Path: "/logs", ID: "logs", Summary: "Get the output of agents",
		Doc: "The last lines of each agent, ordered by time. A follower gets a message with only live when all " +
			"stored lines have been sent.",
		Returns: "A stream of lines.",
	}
	unfinished = api.Stream[unfinishedRequest, UnfinishedLine]{
		Path: "/logs/unfinished", ID: "unfinished", Summary: "Get the line that an agent is writing",
		Doc: "The last line of an agent's output while it is incomplete, such as a progress " +
			"bar. It is sent again whenever it changes, also after restarts.",
		Returns: "A stream of texts.",
	}
)

// Query selects output.
type Query struct {
	Paths  []string  // of agents, or of supervisors for all agents below them; empty: all agents
	Lines  int       // the last lines of each agent; negative: all
	Since  time.Time // only lines from then on; zero: all
	Grep   string    // only lines that match this regular expression (RE2); empty: all
	Follow bool      // also new lines, including those of agents that start later
	// After holds the Position of the last known line, by the path of an agent. For these agents it
	// replaces Lines and Since.
	After map[string]string
}

// Line is a line of an agent's output, or the boundary between two incarnations.
type Line struct {
	_ struct{} `schema:"LogLine" doc:"A line of an agent's output, or the boundary between two of its incarnations."`

	Path        string    `json:"path" doc:"The agent."`
	Line        string    `json:"line" doc:"The line without its line break. It may contain escape sequences."`
	Time        time.Time `json:"time,omitzero" doc:"When it was written, with a precision of 10 ms."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"The incarnation that wrote it."` // 0: not known
	Between     *Between  `json:"between,omitempty"`                                          // Line is empty then
	Position    string    `json:"position,omitempty" doc:"The position after this line, for after."`
	// Live is the only field of one message to a follower: all later lines are new. Followers get
	// it once, even after they connect again.
	Live bool `json:"live,omitempty" doc:"All stored lines have been sent; this message has no line."`
}

// Between marks the end of an incarnation's output, the beginning of the next one's, or both.
type Between struct {
	_ struct{} `doc:"The end of an incarnation's output, the beginning of the next one's, or both."`

	Ended   uint64    `json:"ended,omitempty" doc:"The incarnation that has ended."` // 0: none
	EndedAt time.Time `json:"ended_at,omitzero" doc:"When it ended."`
	Exit    string    `json:"exit,omitempty" doc:"How it ended."`                  // empty: not known
	Began   uint64    `json:"began,omitempty" doc:"The incarnation that started."` // at Time; 0: none
}

// UnfinishedLine is the text of a line that is not complete.
type UnfinishedLine struct {
	_ struct{} `doc:"An incomplete line."`

	Text string `json:"text" doc:"The text so far, or its last 4 KiB. It may contain escape sequences. Empty if there is no incomplete line."`
}

type logsRequest struct {
	Paths  []string `json:"path,omitempty" doc:"An agent, or a supervisor for all agents below it; may be repeated. Default: all agents."`
	Lines  *uint64  `json:"n,omitempty" default:"100" maximum:"1000000" doc:"Number of stored lines of each agent; 1000000 means all. Default: 100, or all with since or grep."`
	Since  string   `json:"since,omitempty" doc:"Only lines from this time on, in RFC 3339."`
	Grep   string   `json:"grep,omitempty" doc:"Only lines that match this regular expression (RE2). Escape sequences are ignored."`
	After  []string `json:"after,omitempty" doc:"Resume an agent: the position of its last known line, a space, and its path; may be repeated."`
	Follow bool     `json:"follow,omitempty" doc:"Wait for new lines."`
}

type unfinishedRequest struct {
	Path string `json:"path" doc:"The agent."`
}

const (
	defaultLines = 100
	allLines     = 1_000_000
)

// query returns the Query for a request.
func (r logsRequest) query() (Query, error) {
	q := Query{
		Paths: slices.DeleteFunc(r.Paths, isEmpty), Lines: defaultLines, Grep: r.Grep, Follow: r.Follow,
		After: make(map[string]string),
	}
	if r.Since != "" {
		at, err := time.Parse(time.RFC3339, r.Since)
		if err != nil {
			return q, fmt.Errorf("%w: parameter since is %.100q, expected a time as in RFC 3339", api.ErrInvalid,
				r.Since)
		}
		q.Since = at
	}
	if _, err := regexp.Compile(r.Grep); err != nil {
		return q, fmt.Errorf("%w: parameter grep: %w", api.ErrInvalid, err)
	}
	switch {
	case r.Lines == nil && (!q.Since.IsZero() || q.Grep != ""), r.Lines != nil && *r.Lines == allLines:
		q.Lines = -1
	case r.Lines != nil:
		q.Lines = int(*r.Lines)
	}
	for _, after := range slices.DeleteFunc(r.After, isEmpty) {
		position, path, ok := strings.Cut(after, " ")
		if !ok || path == "" {
			return q, fmt.Errorf("%w: parameter after is %.100q, expected a position and a path", api.ErrInvalid, after)
		}
		q.After[path] = position
	}
	return q, nil
}

// HandleLogs adds a handler that answers with lines of output.
func HandleLogs(s *api.Server, lines func(context.Context, Query) iter.Seq2[Line, error]) {
	logs.Handle(s, func(ctx context.Context, r logsRequest) iter.Seq2[Line, error] {
		q, err := r.query()
		if err != nil {
			return func(yield func(Line, error) bool) { yield(Line{}, err) }
		}
		return lines(ctx, q)
	})
}

// HandleUnfinished adds a handler that answers with unfinished lines.
func HandleUnfinished(s *api.Server, lines func(ctx context.Context, path string) iter.Seq2[UnfinishedLine, error]) {
	unfinished.Handle(s, func(ctx context.Context, r unfinishedRequest) iter.Seq2[UnfinishedLine, error] {
		return lines(ctx, r.Path)
	})
}

// Unfinished yields the line that an agent is writing, from a daemon; see Service.Unfinished. It
// ends with an error when the connection is lost.
func Unfinished(ctx context.Context, c *api.Client, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for line, err := range unfinished.Open(ctx, c, unfinishedRequest{path}) {
			if !yield(line.Text, err) {
				return
			}
		}
	}
}

// Logs yields output from a daemon. A query that follows continues after the daemon restarts, as in
// api.Stream, without missing or repeating lines.
func Logs(ctx context.Context, c *api.Client, q Query) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f := &follower{q: q, start: time.Now(), after: make(map[string]string)}
		maps.Copy(f.after, q.After)
		var all iter.Seq2[Line, error]
		if q.Follow {
			all = logs.Follow(ctx, c, f.request)
		} else if r, err := f.request(); err == nil {
			all = logs.Open(ctx, c, r)
		} else {
			yield(Line{}, err)
			return
		}
		for line, err := range all {
			if err == nil && line.Live {
				if f.live {
					continue // was passed on after an earlier connection
				}
				f.live = true
			}
			if line.Position != "" {
				f.after[line.Path] = line.Position
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// follower is the state of a client that follows logs.
type follower struct {
	q     Query
	start time.Time
	live  bool              // all earlier lines have been received
	after map[string]string // positions, by path
}

// maxAfter bounds the positions in a request, in bytes, since they have to fit into a request line.
const maxAfter = 12 << 10

// request returns the request for the next connection.
func (f *follower) request() (logsRequest, error) {
	since, lines := f.q.Since, f.q.Lines
	if f.live { // for agents that had written nothing by then
		since, lines = f.start, -1
	}
	r := logsRequest{Paths: f.q.Paths, Grep: f.q.Grep, Follow: f.q.Follow}
	switch n := uint64(lines); {
	case lines >= 0:
		r.Lines = &n
	case since.IsZero() && f.q.Grep == "":
		n = allLines
		r.Lines = &n
	}
	if !since.IsZero() {
		r.Since = since.Format(time.RFC3339Nano)
	}
	size := 0
	for _, path := range slices.Sorted(maps.Keys(f.after)) {
		after := f.after[path] + " " + path
		size += len(url.QueryEscape(after)) + len("&after=")
		r.After = append(r.After, after)
	}
	if size > maxAfter {
		return r, fmt.Errorf("%w: cannot resume the output of %d agents: the positions do not fit into a request",
			api.ErrLost, len(f.after))
	}
	return r, nil
}

// isEmpty reports whether a repeated parameter has an empty value, as forms may send.
func isEmpty(s string) bool { return s == "" }
