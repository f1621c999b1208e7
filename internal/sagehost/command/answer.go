package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/sage/host"
)

// ReadAnswer returns the answer in the output of a command line of a language model.
func (Runner) ReadAnswer(format string, r host.CommandResult) (string, error) {
	cli, err := agentcli.Parse(format, agentcli.CLIs())
	if err != nil {
		return "", err
	}
	errs := agentcli.Stream{CLI: cli, Source: agentcli.FromStderr}
	errs.Write(r.Stderr)
	errs.Close()
	end := agentcli.End{
		CLI: cli, Exit: r.Failure, Code: r.ExitCode, Output: agentcli.Read(cli, r.Stdout), Stderr: errs.Report(),
		Now: time.Now(),
	}
	v := agentcli.Classify(end)
	switch {
	case v.Kind == outcome.Completed && !end.Output.Ended:
		return "", fmt.Errorf("its output is not that of %s; it starts with %q", cli,
			plaintext.OneLine(string(r.Stdout), 200))
	case v.Kind == outcome.Completed:
		return strings.ToValidUTF8(end.Output.Text, "\uFFFD"), nil
	case v.Obstacle == outcome.Crash && !end.Output.Failed:
		return "", errors.New(v.Reason) // only its exit is known
	}
	return "", fmt.Errorf("%w: %s", host.ErrReported, v.Text())
}
