// Package beliefs kills agents, their shims and the daemon while the agents write beliefs, and checks that what was
// acknowledged is there, whole.
package beliefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/value"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// Agent is an agent that counts as fast as it can and keeps, in one step, the
// number, its square and both as text, and the number for this life alone. Its
// journal says what it found, what it tried, and what was acknowledged.
func Agent(dir, name string) error {
	journal, err := os.OpenFile(filepath.Join(dir, name+".journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	c := api.DialAgent(os.Getenv("COPPICE_SOCKET"), os.Getenv("COPPICE_TOKEN"))
	defer c.Close()
	ctx := context.Background()
	var found []belief.Belief
	if err := trial.Retry(func() (err error) {
		found, err = belief.ReadOwn.Call(ctx, c, belief.OwnRequest{Names: []string{"n", "square", "text", "life"}})
		return err
	}); err != nil {
		fmt.Fprintf(journal, "error %v\n", err)
		return err
	}
	n, err := strconv.Atoi(string(found[0].Value))
	if err != nil {
		return err
	}
	fmt.Fprintf(journal, "start %s %s %s %s\n", found[0].Value, found[1].Value, found[2].Value, found[3].Value)
	for {
		n++
		fmt.Fprintf(journal, "try %d\n", n)
		step := belief.OwnChange{Set: stepOf(n)}
		if err := trial.Retry(func() error {
			_, err := belief.ChangeOwn.Call(ctx, c, step)
			return err
		}); err != nil {
			fmt.Fprintf(journal, "error %d %v\n", n, err)
			return err
		}
		fmt.Fprintf(journal, "ack %d\n", n)
	}
}

func stepOf(n int) value.Named {
	return value.Named{
		"n": value.Value(strconv.Itoa(n)), "square": value.Value(strconv.Itoa(n * n)),
		"text": value.Value(fmt.Sprintf(`"%d:%d"`, n, n*n)), "life": value.Value(strconv.Itoa(n)),
	}
}

// account is the content of an agent's journal.
type account struct {
	lives, acks         int
	acknowledged, tried int
}

// audit reads a journal, and finds what was lost, half or came back.
func audit(journal []byte) (a account, err error) {
	journal = journal[:bytes.LastIndexByte(journal, '\n')+1]
	for line := range strings.Lines(string(journal)) {
		fields := strings.Fields(line)
		n := 0
		if fields[0] != "error" {
			if n, err = strconv.Atoi(fields[1]); err != nil {
				return a, fmt.Errorf("%q: %w", line, err)
			}
		}
		switch fields[0] {
		case "start":
			a.lives++
			switch {
			case len(fields) != 5 || !whole(n, fields[2], fields[3]):
				return a, fmt.Errorf("half a step: %q", line)
			case fields[4] != "0":
				return a, fmt.Errorf("what is not persistent came back: %q", line)
			case n != a.acknowledged && n != a.tried:
				return a, fmt.Errorf("%q: acknowledged was %d, and %d tried", line, a.acknowledged, a.tried)
			}
			a.acknowledged, a.tried = n, n
		case "try":
			if n != a.tried+1 {
				return a, fmt.Errorf("tried %d after %d", n, a.tried)
			}
			a.tried = n
		case "ack":
			if n != a.tried {
				return a, fmt.Errorf("acknowledged %d, and %d was tried", n, a.tried)
			}
			a.acknowledged = n
			a.acks++
		default:
			return a, errors.New(strings.TrimSpace(line))
		}
	}
	return a, nil
}

// CheckJournal returns an error for a journal in which something was lost, half or came back.
func CheckJournal(journal []byte) error {
	_, err := audit(journal)
	return err
}

// whole: the other beliefs are of the same step as n.
func whole(n int, square, text string) bool {
	if n == 0 {
		return square == "0" && text == `""`
	}
	return square == strconv.Itoa(n*n) && text == fmt.Sprintf(`"%d:%d"`, n, n*n)
}

// Run kills agents, their shims and the daemon at random moments while
// all agents write, and looks after each time whether what was acknowledged is there.
func Run(o trial.Options) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	coppice, err := filepath.Abs(o.Coppice)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(o.Header(""))
	for i := range o.Agents {
		fmt.Fprintf(&b, "\n[[agent]]\nname = \"a%d\"\ncommand = [%q, \"agent\", %q, \"belief\", \"a%d\"]\nbackoff "+
			"= \"none\"\n[agent.beliefs]\n"+
			"n = { type = \"int\", persistent = true }\nsquare = { type = \"int\", persistent = true }\ntext = { "+
			"type = \"string\", persistent = true }\nlife = 0\n", i, self, o.Dir, i)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "coppice.toml"), []byte(b.String()), 0o600); err != nil {
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
	rnd := rand.New(rand.NewPCG(o.Seed, 1))
	killed := map[string]int{}
	for round := range o.Rounds {
		time.Sleep(time.Duration(rnd.IntN(60_000)) * time.Microsecond) // the random moment
		what := []string{"agent", "shim", "daemon", "daemon and agent", "daemon and shim"}[rnd.IntN(5)]
		if err := strike(client, o, what, rnd.IntN(o.Agents)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		killed[what]++
		if strings.HasPrefix(what, "daemon") {
			if err := up(); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		for i := range o.Agents {
			if err := inspect(client, o.Dir, fmt.Sprint("a", i)); err != nil {
				return fmt.Errorf("round %d, killed %s: agent a%d: %w", round, what, i, err)
			}
		}
		if (round+1)%50 == 0 {
			o.Say("%d rounds", round+1)
		}
	}
	running = false
	if err := trial.Down(client, o.Dir); err != nil {
		return err
	}
	var all account
	for i := range o.Agents {
		a, err := readJournal(o.Dir, fmt.Sprint("a", i))
		if err != nil {
			return fmt.Errorf("agent a%d: %w", i, err)
		}
		all.lives += a.lives
		all.acks += a.acks
	}
	o.Say("%d rounds, killed %v: %d lives, %d steps acknowledged, none lost, none half", o.Rounds, killed, all.lives,
		all.acks)
	if all.lives <= o.Agents || all.acks == 0 {
		return errors.New("nothing was tested")
	}
	return nil
}

// strike kills processes with SIGKILL. An agent that is just being started is spared.
func strike(c *api.Client, o trial.Options, what string, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: fmt.Sprint("a", i)})
	if err != nil {
		return err
	}
	victim := nodes[0].PID
	if strings.HasSuffix(what, "shim") && victim > 0 {
		victim = process.Parent(victim)
	}
	if strings.HasPrefix(what, "daemon") {
		if err := trial.Kill(o.Dir); err != nil {
			return err
		}
	}
	if what != "daemon" && victim > 1 && victim != os.Getpid() {
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func readJournal(dir, name string) (account, error) {
	journal, err := os.ReadFile(filepath.Join(dir, name+".journal"))
	if errors.Is(err, os.ErrNotExist) {
		return account{}, nil // it has not come to it yet
	}
	if err != nil {
		return account{}, err
	}
	return audit(journal)
}

// inspect holds what the daemon says now against the journal before and after it.
func inspect(c *api.Client, dir, name string) error {
	before, err := readJournal(dir, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := belief.Read.Call(ctx, c, belief.ReadRequest{Path: name, Names: []string{"n", "square", "text"}})
	if err != nil {
		return err
	}
	after, err := readJournal(dir, name)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(list[0].Value))
	switch {
	case err != nil:
		return err
	case !whole(n, string(list[1].Value), string(list[2].Value)):
		return fmt.Errorf("half a step: %v", list)
	case n < before.acknowledged || n > max(after.tried, before.tried):
		return fmt.Errorf("n is %d, acknowledged was %d before, tried %d", n, before.acknowledged, after.tried)
	}
	return nil
}
