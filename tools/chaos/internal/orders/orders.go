// Package orders kills the daemon while orders fire, and checks that each firing runs once and none is forgotten.
package orders

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// projectFile has an order of each gate. Each run notes its beginning and its end
// in the journal of its order; heard notes the events that it was given, too.
const projectFile = `[project]
name = "chaos"
[[order]]
name = "cool"
interval = "20ms"
exec = "%[1]s"
[[order]]
name = "slow"
interval = "20ms"
exec = "%[2]s"
[[order]]
name = "queued"
interval = "50ms"
overlap = "queue"
exec = "%[2]s"
[[order]]
name = "tick"
schedule = "* * * * * *"
catch_up = true
overlap = "allow"
exec = "%[1]s"
[[order]]
name = "asked"
check = "true"
check_interval = "30ms"
exec = "%[1]s"
[[order]]
name = "hand"
gate = "manual"
overlap = "allow"
exec = "%[1]s"
[[order]]
name = "heard"
on = "order.completed"
path = "orders/cool"
exec = "%[3]s"
`

// Scripts of the orders.
const (
	begins = `echo begin $COPPICE_ORDER_RUN >>$COPPICE_ORDER.journal`
	ends   = `echo end $COPPICE_ORDER_RUN >>$COPPICE_ORDER.journal`
	quick  = begins + "; " + ends
	slow   = begins + "; sleep 0.05; " + ends
	hears  = begins + "; cat >>heard.events; " + ends
)

// patience bounds each wait; only a failure takes that long.
const patience = 2 * time.Minute

// Run kills the daemon while orders of each gate fire, until there were as
// many kills and as many runs as asked for. Then it holds the event log
// against the journals: no firing ran twice, and none was forgotten.
func Run(o trial.Options) (err error) {
	coppice, err := filepath.Abs(o.Coppice)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(projectFile, quick, slow, hears)
	if err := os.WriteFile(filepath.Join(o.Dir, "coppice.toml"), []byte(text), 0o600); err != nil {
		return err
	}
	up := func() error { return trial.Up(coppice, o.Dir) }
	if err := up(); err != nil {
		return err
	}
	socket, err := endpoint.Path(o.Dir)
	if err != nil {
		return err
	}
	client := api.Dial(socket)
	defer client.Close()
	running := true
	defer func() {
		if running {
			err = errors.Join(err, trial.Down(client, o.Dir))
		}
	}()

	hand := &hand{client: client}
	rnd := rand.New(rand.NewPCG(o.Seed, 2))
	began, fired, seen := time.Now(), 0, uint64(0)
	for round := range o.Rounds {
		// So many more runs, then the random moment: people fire orders all the time.
		enough := (round+1)*o.Runs/o.Rounds - fired
		hand.begin()
		seen, err = await(client, seen, enough, func(e event.Event) bool { return e.Type == event.OrderFired })
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		fired += max(0, enough)
		time.Sleep(time.Duration(rnd.IntN(50_000)) * time.Microsecond)
		if err := trial.Kill(o.Dir); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		hand.end()
		if err := up(); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if (round+1)%10 == 0 {
			o.Say("%d kills", round+1)
		}
	}
	took := time.Since(began)
	if err := comeToRest(client, o.Dir); err != nil {
		return err
	}
	running = false
	if err := trial.Down(client, o.Dir); err != nil {
		return err
	}
	sum, err := check(o.Dir, hand.acknowledged)
	o.Say("%d kills of the daemon in %v: %s", o.Rounds, took.Round(time.Second), sum)
	if err == nil && sum.runs < o.Runs {
		err = fmt.Errorf("%d runs, expected at least %d", sum.runs, o.Runs)
	}
	return err
}

// hand fires an order by hand, again and again, while a daemon lives.
type hand struct {
	client       *api.Client
	cancel       context.CancelFunc
	wg           sync.WaitGroup
	acknowledged []string // ids of runs
}

func (h *hand) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.wg.Go(func() {
		for ctx.Err() == nil {
			req := dispatch.ActRequest{Name: "hand", Action: dispatch.RunOrder, By: "chaos"}
			done, err := dispatch.Act.Call(ctx, h.client, req)
			if err == nil {
				h.acknowledged = append(h.acknowledged, done.Run)
			}
			time.Sleep(20 * time.Millisecond) // between two of a person
		}
	})
}

func (h *hand) end() {
	h.cancel()
	h.wg.Wait()
}

// await reads events after one, until so many have come, and returns the last.
func await(c *api.Client, after uint64, n int, counts func(event.Event) bool) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last = after
	if n <= 0 {
		return last, nil
	}
	for e, err := range feed.Events(ctx, c, event.Query{After: after, Follow: true}) {
		if err != nil {
			return last, err
		}
		if last = e.Seq; counts(e) {
			n--
		}
		if n <= 0 {
			return last, nil
		}
	}
	return last, fmt.Errorf("in vain: %d more events", n)
}

// comeToRest lets everything fire no more, and waits until all that has fired is
// over, and heard.
func comeToRest(c *api.Client, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range []string{"cool", "slow", "queued", "tick", "asked"} {
		req := dispatch.ActRequest{Name: name, Action: dispatch.DisableOrder}
		if _, err := dispatch.Act.Call(ctx, c, req); err != nil {
			return fmt.Errorf("disabling %s: %w", name, err)
		}
	}
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if still, err := nothingRuns(ctx, c); err != nil || !still {
			if err != nil {
				return err
			}
			continue
		}
		owed := 0
		for _, err := range feed.Events(ctx, c, event.Query{Filter: heardFilter()}) {
			if err != nil {
				return err
			}
			owed++
		}
		heard, err := heardEvents(dir)
		if err != nil {
			return err
		}
		if len(heard) < owed { // whether they are the same ones, the check says
			continue
		}
		if still, err := nothingRuns(ctx, c); err != nil || still {
			return err
		}
	}
	return errors.New("the orders do not come to rest")
}

// nothingRuns reports whether no run of any order goes on.
func nothingRuns(ctx context.Context, c *api.Client) (bool, error) {
	all, err := dispatch.List.Call(ctx, c, api.None{})
	for _, o := range all {
		if o.Running > 0 {
			return false, err
		}
	}
	return err == nil, err
}

func heardFilter() event.Filter {
	return event.Filter{Types: []string{string(event.OrderCompleted)}, Path: "orders/cool"}
}

// counts has the results of the checks.
type counts struct{ runs, slots, events, byHand int }

func (s counts) String() string {
	return fmt.Sprintf("%d runs, %d of them at seconds of a schedule, %d acknowledged by hand; %d events handed over",
		s.runs, s.slots, s.byHand, s.events)
}

// check holds the event log against the journals, once the daemon has ended.
func check(dir string, acknowledged []string) (sum counts, err error) {
	p, err := project.Open(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		return sum, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := sqlite.Open(ctx, p.Database())
	if err != nil {
		return sum, err
	}
	defer db.Close()
	log, err := event.Open(event.Config{Store: db, Writer: "check"})
	if err != nil {
		return sum, err
	}
	defer log.Close(ctx)
	all, _, err := log.Read(ctx, 0, event.Filter{}, 0)
	if err != nil {
		return sum, fmt.Errorf("reading the events: %w", err)
	}
	journals := make(map[string]string)
	for _, name := range []string{"cool", "slow", "queued", "tick", "asked", "hand", "heard"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".journal"))
		if err != nil {
			return sum, fmt.Errorf("order %s never ran: %w", name, err)
		}
		journals[name] = string(text)
	}
	heard, err := heardEvents(dir)
	if err != nil {
		return sum, err
	}
	a := newAudit()
	for _, e := range all {
		a.event(e)
	}
	for name, journal := range journals {
		a.journal(name, journal)
	}
	a.hear(heard)
	a.acknowledge(acknowledged)
	return a.close()
}

// heardEvents are the numbers of the events that the order was given, as often as it was.
func heardEvents(dir string) (seqs []uint64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "heard.events"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		seq, err := seqOf(line)
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}
