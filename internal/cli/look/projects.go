package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// runningProject is a project with a daemon, as ls --all-projects shows it.
type runningProject struct {
	Dir       string    `json:"directory"`
	PID       int       `json:"pid"`
	Name      string    `json:"project,omitempty"` // like the rest below, of what answers
	Answers   bool      `json:"answers"`           // in time
	Error     string    `json:"error,omitempty"`   // why it does not
	Running   int       `json:"agents_running"`    //
	Agents    int       `json:"agents"`            //
	Attention int       `json:"attention"`         // what is not well or needs a person, see coppice status
	Since     time.Time `json:"since,omitzero"`
}

// listProjects lists the projects of this user that have a daemon.
func listProjects(s *command.Streams) error {
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	opened, err := project.Running()
	if err != nil {
		return err
	}
	all := queryProjects(ctx, opened, command.ProjectTimeout)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(all) == 0 && !s.JSON {
		_, err := fmt.Fprintln(s.Err, "coppice: none of your projects has a daemon; start one with: coppice up -d")
		return err
	}
	return s.Print(all, func(p terminal.Paint, width int) []string {
		return projectTable(all, time.Now(), width, p)
	})
}

// queryProjects queries all projects in parallel. One that does not answer in time is reported as
// such; processes without a project are left out.
func queryProjects(ctx context.Context, opened []project.Opened, timeout time.Duration) []runningProject {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all := make([]*runningProject, len(opened))
	var asked sync.WaitGroup
	for i, o := range opened {
		asked.Go(func() {
			answer := make(chan *runningProject, 1)
			go func() { answer <- queryProject(ctx, o) }() // hangs if the file system of the project does
			select {
			case all[i] = <-answer:
			case <-ctx.Done():
				select {
				case all[i] = <-answer:
				case <-time.After(timeout / 4): // it has noticed the timeout by then
					all[i] = &runningProject{Dir: o.Project.Dir, PID: o.PID, Error: notAnswering}
				}
			}
		})
	}
	asked.Wait()
	found := []runningProject{} // an empty array in JSON, not null
	for _, p := range all {
		if p != nil {
			found = append(found, *p)
		}
	}
	slices.SortFunc(found, func(a, b runningProject) int { return cmp.Or(cmp.Compare(a.Dir, b.Dir), a.PID-b.PID) })
	return found
}

const notAnswering = "not answering"

// queryProject queries one project. It returns nil if the process does not hold its lock.
func queryProject(ctx context.Context, o project.Opened) *runningProject {
	since, holds := o.Holds()
	if !holds {
		return nil
	}
	p := &runningProject{Dir: o.Project.Dir, PID: o.PID, Since: since}
	socket, err := endpoint.Path(o.Project.Dir)
	if err != nil {
		p.Error = err.Error()
		return p
	}
	client := api.Dial(socket)
	if socket == os.Getenv(proc.EnvSocket) {
		client = api.DialFrom(socket, command.OwnToken())
	}
	defer client.Close()
	st, err := status.Get.Call(ctx, client, api.None{})
	switch {
	case errors.Is(err, api.ErrDown):
		p.Error = "starting or stopping"
	case ctx.Err() != nil:
		p.Error = notAnswering
	case err != nil:
		p.Error = err.Error()
	default:
		p.Answers, p.Name, p.Attention, p.Since = true, st.Project, len(st.Attention), st.Controller.StartedAt
		for state, n := range st.Summary {
			p.Agents += n
			if state == status.StateRunning {
				p.Running += n
			}
		}
	}
	return p
}

func projectTable(all []runningProject, now time.Time, width int, paint terminal.Paint) []string {
	header := []string{"PID", "UP", "AGENTS", "ATTENTION", "DIRECTORY"}
	rows := make([][]string, len(all))
	for i, p := range all {
		agents, attention, up := "-", "-", "-"
		if p.Answers {
			agents = fmt.Sprintf("%d/%d", p.Running, p.Agents)
		} else {
			attention = p.Error
		}
		if p.Attention > 0 {
			attention = fmt.Sprint(p.Attention)
		}
		if !p.Since.IsZero() {
			up = timespan.Short(max(0, now.Sub(p.Since)))
		}
		attention = plaintext.Line(strings.ReplaceAll(attention, "\n", " "))
		rows[i] = []string{fmt.Sprint(p.PID), up, agents, attention, plaintext.Line(p.Dir)}
	}
	return terminal.Table(header, rows, width, func(row, column int, text string) string {
		if row > 0 && header[column] == "ATTENTION" && strings.TrimSpace(text) != "-" {
			return paint.Yellow(text)
		}
		return text
	})
}
