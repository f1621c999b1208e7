package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// noTimeout bounds the wait for a daemon of a call that waits for a person, who may take longer
// than any daemon runs.
const noTimeout = math.MaxInt64 / 2 * time.Nanosecond

type askInput struct {
	Text     string   `json:"text"`
	Options  []string `json:"options"`
	Default  string   `json:"default"`
	Deadline string   `json:"deadline"`
	NoWait   bool     `json:"no_wait"`
}

// answer is the outcome of a question.
type answer struct {
	Question string         `json:"question"`
	State    question.State `json:"state"`
	Answer   string         `json:"answer,omitempty"`
	By       string         `json:"by,omitempty"`
	Note     string         `json:"note,omitempty"`
}

func ask(ctx context.Context, c *caller, in askInput) (any, error) {
	request := question.AskRequest{Text: in.Text, Options: in.Options, Default: in.Default, Key: rand.Text()}
	if in.Deadline != "" {
		d, err := timespan.Parse(in.Deadline)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("deadline is %.40q, expected how long to wait, such as 30m", in.Deadline)
		}
		request.Deadline = d.Seconds()
	}
	if !in.NoWait {
		select {
		case c.waiting <- struct{}{}:
			defer func() { <-c.waiting }()
		default:
			return nil, fmt.Errorf("%d questions are being waited for; ask with no_wait, and the answer comes by mail",
				cap(c.waiting))
		}
	}
	q, err := call(ctx, c, question.Ask, request)
	if err != nil {
		return nil, err
	}
	id := question.ID{ID: q.ID}
	if in.NoWait {
		return answer{Question: id.ID, State: q.State, Note: "the answer comes by mail"}, nil
	}
	if q, err = callFor(ctx, c, noTimeout, question.Await, id); err != nil {
		return nil, err
	}
	a := answer{Question: id.ID, State: q.State, Answer: q.Answer, By: q.By}
	if _, err := call(ctx, c, question.Take, id); err != nil {
		a.Note = "it may come again, by mail: " + err.Error() // the answer itself has arrived
	}
	return a, nil
}
