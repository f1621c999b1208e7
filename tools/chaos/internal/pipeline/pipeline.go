// Package pipeline kills daemons, workers, stages and git commands while a backlog goes through a pipeline, and checks
// that each task ends as if nothing had been killed.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// projectFile has three workers. Nothing but the attempts at a task decides about it: no pool pauses, and a task is
// parked only if it says so itself.
const projectFile = `[project]
name = "chaos"

[daemon]
max_failed_tasks = 0
max_claims = 0

[supervision]
max_restarts = "unlimited"

[[agent]]
name = "fixer"
command = [%[1]q, "stage", %[2]q, "model"]
backoff = "none"
read_write_paths = [%[2]q]

[agent.pool]
min = 3

[agent.pipeline]
branch = "main"
protected = [".github"]
fix_attempts = 0
plan = { timeout = "3s", retries = 0 }
implement = { retries = 0 }
test = [%[1]q, "stage", %[2]q, "check"]
security = [%[1]q, "stage", %[2]q, "review"]
`

// patience bounds the wait for the end of all tasks; only a failure takes that long. Pauses between attempts
// grow with each one that is killed.
const patience = 30 * time.Minute

// batch is a backlog that goes through a pipeline in a git repository.
type batch struct {
	trial.Options
	desk   string // what stages share
	repo   string // the project, and its git repository
	client *api.Client
	backlog
	ids map[string]string // by title, of the backlog
}

// Run takes a backlog through a pipeline, while processes are killed as often as asked for, and checks that all
// tasks have ended as if none had been.
func Run(o trial.Options) (err error) {
	coppice, err := filepath.Abs(o.Coppice)
	if err != nil {
		return err
	}
	t := &batch{Options: o, desk: filepath.Join(o.Dir, "desk"), repo: filepath.Join(o.Dir, "repo"),
		backlog: newBacklog(o.Divided)}
	if err := t.writeRepository(); err != nil {
		return err
	}
	up := func() error { return trial.Up(coppice, t.repo) }
	if err := up(); err != nil {
		return err
	}
	socket, err := endpoint.Path(t.repo)
	if err != nil {
		return err
	}
	t.client = api.Dial(socket)
	defer t.client.Close()
	running := true
	defer func() {
		if running {
			err = errors.Join(err, trial.Down(t.client, t.repo))
		}
	}()
	began := time.Now()
	if err := t.addBacklog(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	people := make(chan error, 1)
	go func() { people <- t.answer(ctx) }()
	k := newKiller(t.repo, rand.New(rand.NewPCG(o.Seed, 3)))
	for round := range o.Rounds {
		if err := k.strike(up); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if (round+1)%10 == 0 {
			o.Say("%d rounds in %v", round+1, time.Since(began).Round(time.Second))
		}
	}
	struck := time.Since(began)
	if err := <-people; err != nil {
		return err
	}
	took := time.Since(began)
	all, err := t.details()
	if err != nil {
		return err
	}
	running = false
	if err := trial.Down(t.client, t.repo); err != nil {
		return err
	}
	a := audit{trial: t, coppice: coppice, tasks: all, killed: k.attempts}
	err = a.check()
	o.Say("%d rounds in %v, the backlog was done after %v; killed: %s", o.Rounds, struck.Round(time.Second),
		took.Round(time.Second), k)
	o.Say("%s", a.sum)
	return err
}

// writeRepository makes the project.
func (t *batch) writeRepository() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, dir := range []string{t.repo, filepath.Join(t.desk, "prompts")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	files := t.backlog.firstFiles()
	files["coppice.toml"] = fmt.Sprintf(projectFile, self, t.desk)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(t.repo, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "first"},
	} {
		if _, err := t.git(args...); err != nil {
			return err
		}
	}
	return nil
}

// git runs a git command in the repository, as a person does.
func (t *batch) git(args ...string) (string, error) {
	args = append([]string{"-C", t.repo, "-c", "user.name=chaos", "-c", "user.email=chaos@localhost"}, args...)
	cmd := exec.Command("git", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w: %s%s", args, err, out, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// addBacklog adds all tasks.
func (t *batch) addBacklog() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t.ids = make(map[string]string)
	for _, e := range t.backlog {
		d := task.Draft{Title: e.title, Pool: "fixer", MaxClaims: e.most, Key: e.title}
		if e.first {
			d.Priority = new(int)
		}
		switch {
		case e.kind() == "wait":
			d.DependsOn = []string{t.ids[e.after]}
		case e.after != "":
			d.Text = "needs " + t.ids[e.after]
		}
		got, err := task.Add.Call(ctx, t.client, task.AddRequest{Task: d, By: "chaos"})
		if err != nil {
			return err
		}
		t.ids[e.title] = got.ID
	}
	return nil
}

// answer answers the questions that are expected, until all tasks are at rest. It repeats what fails because there is
// no daemon.
func (t *batch) answer(ctx context.Context) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		rest := true
		var states []string
		err := trial.Retry(func() error {
			all, err := task.ListAll(ctx, t.client, task.Filter{}, 0)
			if err != nil {
				return err
			}
			for _, one := range all {
				if states = append(states, fmt.Sprintf("%s %q %s", one.ID, one.Title, one.Status)); !atRest(one) {
					rest = false
				}
				if one.Question == nil {
					continue
				}
				for _, a := range script(strings.Fields(one.Title)[0]) {
					if a.answer != "" {
						rest = false
						_, err = task.Act.Call(ctx, t.client, task.ActRequest{ID: one.ID, Action: task.Approve,
							Reason: a.answer, By: "chaos"})
					}
				}
			}
			return err
		})
		if ctx.Err() != nil {
			return fmt.Errorf("the tasks do not end: %s", strings.Join(states, "; "))
		}
		if rest || err != nil {
			return err
		}
	}
}

// atRest reports whether nothing happens to a task before a person acts.
func atRest(t task.Task) bool {
	return t.Status == task.Parked || t.Question != nil || t.Status == task.Closed
}

// details returns all tasks with their attempts.
func (t *batch) details() (details []task.Detail, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := task.ListAll(ctx, t.client, task.Filter{All: true}, 0)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		d, err := task.Show.Call(ctx, t.client, task.ShowRequest{ID: one.ID})
		if err != nil {
			return nil, err
		}
		details = append(details, d)
	}
	return details, nil
}
