package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/coppice-dev/coppice/internal/git"
)

// Kind is the kind of an Error. It decides what follows.
type Kind int

// The kinds of errors.
const (
	Unknown  Kind = iota // it may pass
	Network              // the server is not reached, or is overloaded: it may pass
	Setup                // the remote or gh is missing, or not as it has to be: a person has to change that
	Login                // the account is not accepted: a person has to log in
	Rejected             // the server refuses the branch or the pull request: a person has to decide
)

// Error is a failure of git or gh, with the next step for a person, if there is one.
type Error struct {
	Kind Kind
	Next string // such as "run gh auth login"
	Err  error
}

func (e *Error) Error() string {
	if e.Next == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; %s", e.Err, e.Next)
}

func (e *Error) Unwrap() error { return e.Err }

// sign is a text in what git or gh writes to standard error.
type sign struct {
	text string // in lower case
	kind Kind
	next string
}

const (
	logIn   = "log in with gh auth login, and make git push work without a password"
	nextURL = "check the URL of the remote and what the account may do"
)

// signs returns what tells the kinds of failures apart. The first that is found counts: git says "could not read from
// remote repository" after each of them.
func signs() []sign {
	return []sign{
		{"rate limit", Network, ""},
		{"submitted too quickly", Network, ""},
		{"something went wrong", Network, ""},
		{"gh auth login", Login, logIn},
		{"bad credentials", Login, logIn},
		{"http 401", Login, logIn},
		{"http 403", Login, logIn},
		{"permission denied (", Login, logIn},
		{"permission to ", Login, logIn},
		{"authentication failed", Login, logIn},
		{"could not read username", Login, logIn},
		{"could not read password", Login, logIn},
		{"host key verification failed", Login, "connect to the host once, to confirm its key"},
		{"returned error: 401", Login, logIn},
		{"returned error: 403", Login, logIn},
		{"unknown flag", Setup, "update gh"},
		{"unknown json field", Setup, "update gh"},
		{"could not resolve to a repository", Setup, nextURL},
		{"repository not found", Setup, nextURL},
		{"does not appear to be a git repository", Setup, nextURL},
		{"http 404", Setup, nextURL},
		{"could not resolve host", Network, ""},
		{"connection timed out", Network, ""},
		{"connection refused", Network, ""},
		{"connection reset", Network, ""},
		{"network is unreachable", Network, ""},
		{"temporary failure in name resolution", Network, ""},
		{"error connecting to", Network, ""},
		{"dial tcp", Network, ""},
		{"timeout", Network, ""},
		{"http 5", Network, ""},
		{"returned error: 5", Network, ""},
		{"hung up unexpectedly", Network, ""},
		{"early eof", Network, ""},
		{"graphql: ", Rejected, ""},
	}
}

// classify returns the *Error of a command that has failed.
func classify(ctx context.Context, doing string, err error) error {
	failed := &Error{Err: fmt.Errorf("%s: %w", doing, err)}
	command, ok := errors.AsType[*git.Error](err)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		failed.Kind, failed.Next = Setup, "install gh, GitHub's command line, and run gh auth login"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failed.Kind = Network
	case ok && command.Program == gh && git.ExitCode(err) == exitLogin:
		failed.Kind, failed.Next = Login, logIn
	case ok:
		text := strings.ToLower(command.Stderr)
		for _, s := range signs() {
			if strings.Contains(text, s.text) {
				failed.Kind, failed.Next = s.kind, s.next
				break
			}
		}
	}
	return failed
}
