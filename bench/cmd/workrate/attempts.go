//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/task"
)

// tracker keeps tasks and the attempts at them.
type tracker interface {
	add(ctx context.Context, worker int) error
	// claim claims the first task, and returns its id; empty if there is none.
	claim(ctx context.Context, worker int) (id string, err error)
	// list returns the number of the first tasks that are not done.
	list(ctx context.Context, worker int) (int, error)
	// route ends the attempt at a task, which is to be tried again later, and keeps why.
	route(ctx context.Context, worker int, id string) error
	close() error
}

// listed is the number of tasks in a list.
const listed = 50

// failure is the outcome of each attempt, the same for all implementations.
func failure() outcome.Report {
	return outcome.Report{Kind: outcome.Retryable, Context: &outcome.Context{
		Approach:       "mode maintenance; plan: edit; implemented: edited; ended in test",
		Obstacle:       outcome.Obstacle{Kind: outcome.VerificationFailed, Description: "TestLogin fails: " + text},
		Discoveries:    []string{"login.go is generated"},
		Recommendation: "change the template",
		Explored:       outcome.Explored{Files: []string{"login.go", "login_test.go"}},
	}}
}

func (p program) openTracker(ctx context.Context, dir string, n int) (tracker, error) {
	switch p.impl {
	case "raw-sqlite":
		return openRows(ctx, dir)
	case "coppice-socket":
		q, err := openSocket(p.coppice, dir, n)
		if err != nil {
			return nil, err
		}
		return attemptSocket{q.(throughSocket)}, nil
	}
	return nil, fmt.Errorf("%q keeps no attempts", p.impl)
}

// measureAttempts lets n workers claim tasks of a backlog, list it, and end their attempts, each of them one after the
// other.
func measureAttempts(ctx context.Context, p program, n, tasks int, storm time.Duration) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "workrate-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	q, err := p.openTracker(ctx, dir, n)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if err := fill(ctx, q, n, tasks); err != nil {
		return row, err
	}
	took := make([]map[string][]time.Duration, n)
	errs := make([]error, n)
	began := time.Now()
	var workers sync.WaitGroup
	for i := range n {
		took[i] = map[string][]time.Duration{}
		step := func(name string, do func() error) {
			if from := time.Now(); errs[i] == nil {
				errs[i] = do()
				took[i][name] = append(took[i][name], time.Since(from))
			}
		}
		workers.Go(func() {
			for errs[i] == nil && time.Since(began) < storm {
				id := ""
				step("claim", func() (err error) {
					id, err = q.claim(ctx, i)
					return err
				})
				if id == "" { // all were tried
					return
				}
				step("list", func() error {
					got, err := q.list(ctx, i)
					if err == nil && got == 0 {
						err = errors.New("a list without the task that is claimed")
					}
					return err
				})
				step("route", func() error { return q.route(ctx, i, id) })
			}
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return row, err
	}
	m := map[string]float64{}
	for _, name := range []string{"claim", "list", "route"} {
		var all []time.Duration
		for _, one := range took {
			all = append(all, one[name]...)
		}
		slices.Sort(all)
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		m[name+"_p50_us"], m[name+"_p99_us"] = us(all[len(all)/2]), us(all[len(all)*99/100])
	}
	return report.Row{Impl: p.impl, Scenario: "attempts", N: n, Metrics: m}, nil
}

// fill adds tasks, many at a time.
func fill(ctx context.Context, q tracker, n, tasks int) error {
	errs := make([]error, 32)
	var adders sync.WaitGroup
	for i := range errs {
		adders.Go(func() {
			for k := i; k < tasks && errs[i] == nil; k += len(errs) {
				errs[i] = q.add(ctx, i%n)
			}
		})
	}
	adders.Wait()
	return errors.Join(errs...)
}

// attemptSocket is a daemon, whose agents report outcomes.
type attemptSocket struct{ throughSocket }

func (q attemptSocket) claim(ctx context.Context, i int) (string, error) {
	got, err := task.Claim.Call(ctx, q.Agents[i], task.ClaimRequest{Pools: []string{pool}, Key: rand.Text()})
	if err != nil || len(got) == 0 {
		return "", err
	}
	return got[0].ID, nil
}

func (q attemptSocket) list(ctx context.Context, i int) (int, error) {
	got, err := task.List.Call(ctx, q.Agents[i], task.ListRequest{Filter: task.Filter{Pool: pool}, Limit: listed})
	return len(got), err
}

func (q attemptSocket) route(ctx context.Context, i int, id string) error {
	_, err := claim.Report.Call(ctx, q.Agents[i], claim.Request{Report: failure(), Task: id})
	return err
}

// rows is SQLite alone: a row for each task and attempt, and a transaction for each step.
type rows struct {
	*raw
	first, again, attempt *sql.Stmt
}

func openRows(ctx context.Context, dir string) (tracker, error) {
	q, err := openRaw(ctx, dir)
	if err != nil {
		return nil, err
	}
	r := &rows{raw: q.(*raw)}
	_, err = r.db.ExecContext(ctx,
		`CREATE TABLE attempt (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, outcome TEXT NOT NULL)`)
	for to, query := range map[**sql.Stmt]string{
		&r.first:   `SELECT id, state, worker, title FROM task WHERE state < 2 ORDER BY id LIMIT ?`,
		&r.again:   `UPDATE task SET state = 3 WHERE id = ?`, // until its pause is over
		&r.attempt: `INSERT INTO attempt (task, outcome) VALUES (?, ?)`,
	} {
		if err == nil {
			*to, err = r.db.PrepareContext(ctx, query)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (q *rows) claim(ctx context.Context, worker int) (id string, err error) {
	err = q.take.QueryRowContext(ctx, worker).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

func (q *rows) list(ctx context.Context, _ int) (n int, err error) {
	all, err := q.first.QueryContext(ctx, listed)
	if err != nil {
		return 0, err
	}
	defer all.Close()
	for ; all.Next(); n++ {
		var id, state int
		var worker sql.NullInt64
		var title string
		if err := all.Scan(&id, &state, &worker, &title); err != nil {
			return 0, err
		}
	}
	return n, all.Err()
}

func (q *rows) route(ctx context.Context, _ int, id string) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = tx.StmtContext(ctx, q.attempt).ExecContext(ctx, id, failure().Describe())
	if err == nil {
		_, err = tx.StmtContext(ctx, q.again).ExecContext(ctx, id)
	}
	return errors.Join(err, tx.Commit())
}
