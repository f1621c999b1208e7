// Package limits asks a command line of a language model what is left of its account. That calls no model.
//
// Only claude can be asked. It answers a control request on its standard input with what its server says of the plan:
// how much of each limit is used, and when it resets. It tells this of a login that may read the profile of its user.
// Of an API key and of a token for unattended use (claude setup-token) it says that no limits of a plan apply.
package limits

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Timeout bounds a question. It takes half a second, and as long as the server needs to answer.
const Timeout = 10 * time.Second

// maxOutput bounds what is read of an answer, in bytes: all agents, commands and models are in front of it.
const maxOutput = 4 << 20

// Identifiers of the requests.
const (
	initializeID = "coppice-initialize"
	usageID      = "coppice-usage"
)

// requests is the input of a question. Without the first request claude answers none.
const requests = `{"type":"control_request","request_id":"` + initializeID + `","request":{"subtype":"initialize"}}
{"type":"control_request","request_id":"` + usageID + `","request":{"subtype":"get_usage","skip_behaviors":true}}
`

// options returns the options of a question. Without them the hooks and MCP servers of the user and of the project
// would start.
func options() []string {
	return []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--strict-mcp-config", "--settings", `{"disableAllHooks":true}`}
}

// Command returns the command that asks for the account of the command line that argv starts. It is nil if that cannot
// be asked: it is not claude with -p, so that the program is not known to take the options of claude; it may be
// downloaded first; or its options may choose another account.
func Command(argv []string) []string {
	_, cli, arguments := agentcli.Split(argv)
	if cli != agentcli.Claude {
		return nil
	}
	program := argv[:len(argv)-len(arguments)]
	if slices.ContainsFunc(program, func(word string) bool {
		return slices.Contains([]string{"npx", "bunx"}, filepath.Base(word))
	}) {
		return nil
	}
	prints := false
	for _, word := range arguments {
		if word == "--" {
			break
		}
		switch name, _, _ := strings.Cut(word, "="); name {
		case "-p", "--print":
			prints = true
		case "--settings", "--setting-sources", "--bare":
			return nil
		}
	}
	if !prints {
		return nil
	}
	return slices.Concat(program, options())
}

// Ask runs a question: a command whose Argv is that of Command, in the environment of its agent. It is killed with its
// process group after Timeout, or when ctx ends. The errors are those of proc.Run and of Parse.
func Ask(ctx context.Context, c proc.Command) (Answer, error) {
	late := fmt.Errorf("no answer within %v", Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, late)
	defer cancel()
	r, err := proc.Run(ctx, c, requests, maxOutput)
	if err != nil {
		return Answer{}, err
	}
	a, err := Parse(r.Stdout)
	if errors.Is(err, ErrNoAnswer) {
		err = fmt.Errorf("%w (%v): %.200s", err, r.Exit, plaintext.Line(string(r.Stderr)))
	}
	return a, err
}
