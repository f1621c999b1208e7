package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/question"
)

// Asking is questions of agents to people, see package question. Errors:
// ErrNotFound, ErrInvalid, ErrConflict where a question has ended or there are too many.
type Asking interface {
	// Ask asks, or returns the question that this one repeats.
	Ask(ctx context.Context, who Caller, q AskRequest) (question.Question, error)
	// Question returns a question, an agent only its own. The zero Caller is people.
	Question(ctx context.Context, who Caller, id string) (question.Question, error)
	// AwaitAnswer returns a question when it is not open any more.
	AwaitAnswer(ctx context.Context, who Caller, id string) (question.Question, error)
	// TakeAnswer notes that the agent knows how its question ended.
	TakeAnswer(ctx context.Context, who Caller, id string) (question.Question, error)
	Withdraw(ctx context.Context, who Caller, id string) (question.Question, error)

	// Questions lists those that are open, or all that are kept.
	Questions(ctx context.Context, all bool) ([]question.Question, error)
	// Answer answers an open question, once.
	Answer(ctx context.Context, a AnswerRequest) (question.Question, error)
}

// AskRequest is a question that is to be asked.
type AskRequest struct {
	Text     string   `json:"text"`
	Options  []string `json:"options,omitempty"`
	Default  string   `json:"default,omitempty"`          // the answer at the deadline
	Deadline float64  `json:"deadline_seconds,omitempty"` // from now; 0 for none
	Key      string   `json:"key,omitempty"`              // what is asked again under the same key is the same question
}

// QuestionID is one question.
type QuestionID struct {
	ID string `json:"id"`
}

// AnswerRequest is the body of POST /v1/answer.
type AnswerRequest struct {
	ID     string `json:"id"`
	Answer string `json:"answer"`
	By     string `json:"by,omitempty"` // who answers, for people; "people" if empty
}

func askingRoutes() []route {
	id := []param{{name: "id", kind: "string", required: true}}
	const maxBody = 6*(question.MaxText+question.MaxOptions*question.MaxOption) + 8<<10
	return []route{
		{method: "GET", path: "/v1/questions", params: []param{{name: "all", kind: "boolean"}}, answer: []question.Question{}, serve: (*call).questions},
		{method: "GET", path: "/v1/question", params: id, answer: question.Question{}, serve: (*call).question},
		{method: "POST", path: "/v1/answer", body: AnswerRequest{}, maxBody: maxBody, answer: question.Question{}, serve: (*call).answerQuestion},
		{method: "POST", path: "/v1/agent/ask", agent: true, body: AskRequest{}, maxBody: maxBody, answer: question.Question{}, serve: (*call).ask},
		{method: "GET", path: "/v1/agent/question", agent: true, params: id, answer: question.Question{}, serve: (*call).question},
		{method: "GET", path: "/v1/agent/question/await", agent: true, params: id, stream: true, answer: question.Question{}, serve: (*call).awaitAnswer},
		{method: "POST", path: "/v1/agent/question/take", agent: true, body: QuestionID{}, answer: question.Question{}, serve: (*call).takeAnswer},
		{method: "POST", path: "/v1/agent/question/withdraw", agent: true, body: QuestionID{}, answer: question.Question{}, serve: (*call).withdraw},
	}
}

func (c *call) questions() error {
	questions, err := c.service.Questions(c.r.Context(), c.query.flag("all"))
	if err != nil {
		return err
	}
	return c.answer(orEmpty(questions))
}

// reply answers with a question.
func (c *call) reply(q question.Question, err error) error {
	if err != nil {
		return err
	}
	q.Options = orEmpty(q.Options)
	return c.answer(q)
}

func (c *call) question() error {
	return c.reply(c.service.Question(c.r.Context(), c.caller, c.query.text("id")))
}

func (c *call) answerQuestion() error {
	var req AnswerRequest
	if err := c.body(&req); err != nil {
		return err
	}
	return c.reply(c.service.Answer(c.r.Context(), req))
}

func (c *call) ask() error {
	var req AskRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if most := question.MaxDeadline.Seconds(); req.Deadline < 0 || req.Deadline > most {
		return fmt.Errorf("%w: deadline_seconds is %v, expected up to %.0f", ErrInvalid, req.Deadline, most)
	}
	return c.reply(c.service.Ask(c.r.Context(), c.caller, req))
}

// awaitAnswer is a stream of one message, so that both sides see each other
// live while they wait.
func (c *call) awaitAnswer() error {
	return stream(c, func(ctx context.Context) iter.Seq2[question.Question, error] {
		return func(yield func(question.Question, error) bool) {
			q, err := c.service.AwaitAnswer(ctx, c.caller, c.query.text("id"))
			q.Options = orEmpty(q.Options)
			yield(q, err)
		}
	}, nil)
}

func (c *call) takeAnswer() error {
	var req QuestionID
	if err := c.body(&req); err != nil {
		return err
	}
	return c.reply(c.service.TakeAnswer(c.r.Context(), c.caller, req.ID))
}

func (c *call) withdraw() error {
	var req QuestionID
	if err := c.body(&req); err != nil {
		return err
	}
	return c.reply(c.service.Withdraw(c.r.Context(), c.caller, req.ID))
}

// Ask asks people in the name of an agent. It does not wait for the answer: see AwaitAnswer.
func (c *Client) Ask(ctx context.Context, r AskRequest) (q question.Question, err error) {
	return q, c.call(ctx, "POST", "/agent/ask", nil, r, &q)
}

// Question returns a question; an agent gets only its own.
func (c *Client) Question(ctx context.Context, id string) (q question.Question, err error) {
	return q, c.call(ctx, "GET", c.own("/question"), url.Values{"id": {id}}, nil, &q)
}

// AwaitAnswer returns a question of an agent when it is not open any more. It
// fails with ErrLost, ErrDown or ErrStopping where the daemon goes away
// meanwhile, and may be called again then. Who has seen the answer says so by TakeAnswer.
func (c *Client) AwaitAnswer(ctx context.Context, id string) (q question.Question, err error) {
	req, err := c.request(ctx, "GET", "/agent/question/await", url.Values{"id": {id}}, nil)
	if err != nil {
		return q, err
	}
	for m, err := range c.stream(req, func() {}) {
		if err == nil {
			err = json.Unmarshal(m.data, &q)
		}
		return q, err
	}
	return q, ErrLost
}

// TakeAnswer notes that an agent knows how its question ended: when it asks the
// same again, that is a new question. A question that is open stays as it is.
func (c *Client) TakeAnswer(ctx context.Context, id string) (q question.Question, err error) {
	return q, c.call(ctx, "POST", "/agent/question/take", nil, QuestionID{id}, &q)
}

// Withdraw ends an open question of an agent.
func (c *Client) Withdraw(ctx context.Context, id string) (q question.Question, err error) {
	return q, c.call(ctx, "POST", "/agent/question/withdraw", nil, QuestionID{id}, &q)
}

// Questions lists the questions that are open, or all that are kept.
func (c *Client) Questions(ctx context.Context, all bool) (questions []question.Question, err error) {
	return questions, c.call(ctx, "GET", "/questions", url.Values{"all": {strconv.FormatBool(all)}}, nil, &questions)
}

// Answer answers an open question. ErrConflict says who was first.
func (c *Client) Answer(ctx context.Context, a AnswerRequest) (q question.Question, err error) {
	return q, c.call(ctx, "POST", "/answer", nil, a, &q)
}

// Within is the deadline as a duration.
func (r AskRequest) Within() time.Duration { return time.Duration(r.Deadline * float64(time.Second)) }
