package question

import "github.com/coppice-dev/coppice/internal/api"

// Routes for questions. Agents ask, and people answer.
var (
	// List returns open questions, or all that are stored.
	List = api.Route[ListRequest, []Question]{
		Method: "GET", Path: "/questions", For: api.People,
		ID: "questions", Summary: "List questions to people",
		Doc:     "Open questions, or all of them, in the order in which they were asked.",
		Returns: "The questions.",
	}
	// Get returns a question. An agent gets only its own.
	Get = api.Route[ID, Question]{
		Method: "GET", Path: "/question", For: api.People | api.Agents,
		ID: "question", Summary: "Get a question",
		Doc:     "An agent gets only its own.",
		Returns: "The question.",
	}
	// Answer answers an open question. ErrEnded names the first answer.
	Answer = api.Route[AnswerRequest, Question]{
		Method: "POST", Path: "/answer", For: api.People, MaxBody: maxBody,
		ID: "answer", Summary: "Answer a question",
		Doc:     "A question is answered once: a failure with the code conflict names the first answer.",
		Returns: "The question, answered.",
	}
	// Ask asks a question on behalf of an agent, without waiting for the answer.
	Ask = api.Route[AskRequest, Question]{
		Method: "POST", Path: "/ask", For: api.Agents, MaxBody: maxBody,
		ID: "ask", Summary: "Ask people",
		Doc: "Answers when the question is durable, without waiting for people. If the agent has an open question " +
			"with the same text, or one whose answer it has not taken, that question is returned.",
		Returns: "The question.",
	}
	// Await returns a question of an agent once it has ended. A caller that has seen the answer
	// calls Take.
	Await = api.Route[ID, Question]{
		Method: "GET", Path: "/question/await", For: api.Agents, Waits: true,
		ID: "awaitAnswer", Summary: "Wait for an answer",
		Doc:     "A stream of one message, in the format of the event stream: the question once it has ended.",
		Returns: "A stream of one question.",
	}
	// Take marks the outcome of a question as known to its agent.
	Take = api.Route[ID, Question]{
		Method: "POST", Path: "/question/take", For: api.Agents,
		ID: "takeAnswer", Summary: "Mark an answer as taken",
		Doc:     "Asking the same again is a new question from then on. An open question stays as it is.",
		Returns: "The question.",
	}
	// Withdraw withdraws an open question of an agent.
	Withdraw = api.Route[ID, Question]{
		Method: "POST", Path: "/question/withdraw", For: api.Agents,
		ID: "withdraw", Summary: "Withdraw an open question",
		Returns: "The question, withdrawn.",
	}
)

// maxBody bounds the body of a request with a question or an answer, in bytes. JSON may take six
// bytes for one.
const maxBody = 6*(MaxText+MaxOptions*MaxOption) + 8<<10

// ListRequest selects the questions to list.
type ListRequest struct {
	All bool `json:"all,omitempty" doc:"All stored questions, not only open ones."`
}

// ID names a question.
type ID struct {
	_  struct{} `schema:"QuestionID" doc:"Names a question."`
	ID string   `json:"id" doc:"The question, such as q-7."`
}

// AskRequest is a question to be asked.
type AskRequest struct {
	_        struct{} `doc:"A question to be asked."`
	Text     string   `json:"text" doc:"At most 16 KiB."`
	Options  []string `json:"options,omitempty" doc:"2 to 20, of at most 256 bytes each."`
	Default  string   `json:"default,omitempty" doc:"The answer at the deadline: one of the options, if there are any. Needs a deadline."`
	Deadline float64  `json:"deadline_seconds,omitempty" minimum:"0" doc:"Seconds until the deadline; 0 means none."`
	Key      string   `json:"key,omitempty" maxLength:"256" doc:"Asking again with the same key returns the same question."`
}

// AnswerRequest is the answer to a question.
type AnswerRequest struct {
	_      struct{} `doc:"The answer to a question."`
	ID     string   `json:"id" doc:"Such as q-7."`
	Answer string   `json:"answer" doc:"One of the options, if there are any; at most 16 KiB."`
	By     string   `json:"by,omitempty" maxLength:"256" doc:"Name of the person who answers. Default: people."`
}
