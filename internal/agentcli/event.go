package agentcli

import "time"

// Event is something that a command line has reported. Which fields are set depends on its kind.
type Event struct {
	Kind EventKind
	Time time.Time // zero if it was not reported

	// Session: what was started. Fields that were not reported are empty.
	Session string
	Version string // of the command line
	Account Account
	// Origin is the entry in the file of the session that the event follows.
	Origin string

	// Model is that of a Session, of Tokens or of a Message.
	Model string

	// Text is that of a Message, and the answer of a Result, if the command line has marked one.
	Text  string
	Delta bool // the Message continues the one before

	// Tool, Permission: a call of a tool.
	Tool, Call string
	Done, OK   bool // the call has ended, and well

	// Tokens: what was used.
	Scope  Scope
	ID     string // of the message, which may be reported several times
	Usage  Usage
	Models Models // of all scopes except Message

	// Limit: the state of the quotas of the account.
	Windows []Window

	// Failure: what has failed, of a Failed or Retry.
	Failure Failure
	// Failed says that a Result is a failure.
	Failed bool
	// Turns are the answers of the model before a Result, if the command line has counted them.
	Turns int64

	// Name is that of an Unknown object.
	Name string
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	Session    EventKind = iota + 1 // it has started, or has said more about its session
	Turn                            // it begins to work on a prompt, or goes on after failures
	Message                         // text of the model for the user
	Tool                            // a call of a tool
	Permission                      // a call of a tool was denied
	Tokens                          // tokens were used
	Limit                           // the state of quotas
	Retry                           // a call of the model has failed and is repeated by the command line
	Failed                          // something has failed for good, unless it goes on after it
	Step                            // a part of the work has ended, and more will follow
	Result                          // the work has ended
	Unknown                         // an object of a kind that this version does not know
)

// Scope says what a usage includes.
type Scope uint8

const (
	OfMessage Scope = iota // a message or step
	OfPart                 // all since the last OfPart: it replaces its messages
	OfRun                  // all of the run
	OfSession              // all of the session, with earlier runs that it continues
)

// Account is the kind of account that pays.
type Account string

const (
	UnknownAccount Account = ""
	APIKey         Account = "api_key"
	Subscription   Account = "subscription"
)

// Window is a quota of an account.
type Window struct {
	Name     string    // such as five_hour
	Used     float64   // the share that is used, from 0 to 1; -1 if it is not known
	Resets   time.Time // zero if it is not known
	Rejected bool      // nothing more is served until then
}

// Failure is what a command line, or a server through it, says of a failure.
type Failure struct {
	Code   string // as it is spelled there: rate_limit, TerminalQuotaError
	Status int    // of HTTP; 0 if it was not reported
	Text   string // the message, for people
	// Reset is when the limit that was reached ends; zero if it was not reported.
	Reset time.Time
	// Source is where the failure was reported.
	Source Source
}

// Source is a place where a command line reports.
type Source string

const (
	FromStream  Source = "output"       // standard output
	FromStderr  Source = "stderr"       // standard error
	FromSession Source = "session file" // the file that it keeps of its session
	FromExit    Source = "exit code"
	FromMessage Source = "message"    // a text for people
	FromFile    Source = "usage file" // the file that a command of the user's own writes
	FromExport  Source = "OTLP"
	FromAccount Source = "account" // what it tells of its account when it is asked, see package limits
)
