package question

import "github.com/coppice-dev/coppice/internal/api"

// The routes of questions: agents ask them, and people answer.
var (
	// List returns the questions that are open, or all that are kept.
	List = api.Route[ListRequest, []Question]{
		Method: "GET", Path: "/questions", For: api.People,
		ID: "questions", Summary: "What agents ask people",
		Doc:     "In the order in which they were asked: those that are open, or all.",
		Returns: "The questions.",
	}
	// Get returns a question, to an agent only its own.
	Get = api.Route[ID, Question]{
		Method: "GET", Path: "/question", For: api.People | api.Agents,
		ID: "question", Summary: "One question",
		Doc:     "An agent gets only its own.",
		Returns: "The question.",
	}
	// Answer answers an open question. ErrEnded says who was first.
	Answer = api.Route[AnswerRequest, Question]{
		Method: "POST", Path: "/answer", For: api.People, MaxBody: maxBody,
		ID: "answer", Summary: "Answer a question",
		Doc:     "A question is answered once: a failure with the code conflict says who was first.",
		Returns: "The question, answered.",
	}
	// Ask asks people in the name of an agent, and does not wait for the answer.
	Ask = api.Route[AskRequest, Question]{
		Method: "POST", Path: "/ask", For: api.Agents, MaxBody: maxBody,
		ID: "ask", Summary: "Ask people",
		Doc: "The answer comes at once, when the question is durable: it is open, as a rule. Where the agent has an " +
			"open question with that text, or one whose answer it has not taken, it is that one.",
		Returns: "The question.",
	}
	// Await returns a question of an agent once it is closed. Who has
	// seen the answer says so by Take.
	Await = api.Route[ID, Question]{
		Method: "GET", Path: "/question/await", For: api.Agents, Waits: true,
		ID: "awaitAnswer", Summary: "Wait for an answer",
		Doc:     "A stream, as that of events, of one message: the question once it is closed.",
		Returns: "A stream of one question.",
	}
	// Take notes that an agent knows how its question ended.
	Take = api.Route[ID, Question]{
		Method: "POST", Path: "/question/take", For: api.Agents,
		ID: "takeAnswer", Summary: "Note that the agent has got the answer",
		Doc:     "When it asks the same again, that is a new question. One that is open stays as it is.",
		Returns: "The question.",
	}
	// Withdraw ends an open question of an agent.
	Withdraw = api.Route[ID, Question]{
		Method: "POST", Path: "/question/withdraw", For: api.Agents,
		ID: "withdraw", Summary: "Withdraw an open question",
		Returns: "The question, withdrawn.",
	}
)

// maxBody is the body of a request with a question or an answer, in bytes: in
// JSON a byte may take six.
const maxBody = 6*(MaxText+MaxOptions*MaxOption) + 8<<10

// ListRequest says which questions are listed.
type ListRequest struct {
	All bool `json:"all,omitempty" doc:"All that is kept, not only what is waiting."`
}

// ID is one question.
type ID struct {
	_  struct{} `schema:"QuestionID" doc:"One question."`
	ID string   `json:"id" doc:"The question, such as q-7."`
}

// AskRequest is a question that is to be asked.
type AskRequest struct {
	_        struct{} `doc:"A question that is to be asked."`
	Text     string   `json:"text" doc:"At most 16 KiB."`
	Options  []string `json:"options,omitempty" doc:"2 to 20, of at most 256 bytes each."`
	Default  string   `json:"default,omitempty" doc:"One of the options, where there are some; needs a deadline."`
	Deadline float64  `json:"deadline_seconds,omitempty" minimum:"0" doc:"Until the deadline, from now; none if 0."`
	Key      string   `json:"key,omitempty" maxLength:"256" doc:"What is asked again under the same key is the same question."`
}

// AnswerRequest is the answer to a question.
type AnswerRequest struct {
	_      struct{} `doc:"The answer to a question."`
	ID     string   `json:"id" doc:"Such as q-7."`
	Answer string   `json:"answer" doc:"One of the options, where there are some; at most 16 KiB."`
	By     string   `json:"by,omitempty" maxLength:"256" doc:"Who answers, for people to read; people if it is not given."`
}
