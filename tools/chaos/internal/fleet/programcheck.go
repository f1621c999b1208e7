package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/tools/chaos/internal/beliefs"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// counter holds what is known of an agent of the program after the trial.
type counter struct {
	name    string
	found   []agentLife      // in its journal; each incarnation is its own number of the life
	stopped bool             // its journal says so
	steps   []byte           // the journal of its steps
	output  []byte           // its log
	lives   map[uint64]*life // in the events
	hits    map[int]bool     // numbers of lives that were killed after they had written their journal
	kills   int              // of the whole program
}

// readCounter reads the journals and the log of an agent of the program.
func readCounter(p project.Project, dir, name string) (c counter, err error) {
	c.name = name
	if c.found, c.stopped, err = readLives(dir, name); err != nil {
		return c, err
	}
	file, err := slots.LogFile(p.Slots(), "chaos/"+name)
	if err != nil {
		return c, err
	}
	var stepsErr, logErr error
	c.steps, stepsErr = os.ReadFile(filepath.Join(dir, name+".steps.journal"))
	c.output, logErr = os.ReadFile(file)
	return c, errors.Join(stepsErr, logErr)
}

// check checks all that is promised to an agent of the program.
func (c counter) check() error {
	err := beliefs.CheckJournal(c.steps)
	for _, e := range []error{err, c.checkLives(), c.checkLog()} {
		if e != nil {
			return fmt.Errorf("%s: %w", c.name, e)
		}
	}
	return nil
}

// checkLives checks that the agent was restarted once for each kill of its process, and at no other time.
func (c counter) checkLives() error {
	if len(c.found) == 0 {
		return errors.New("it never ran")
	}
	last := uint64(len(c.lives))
	for n := uint64(1); n <= last; n++ {
		switch l := c.lives[n]; {
		case l == nil:
			return fmt.Errorf("incarnation %d of %d is not in the log", n, last)
		case l.ended != 1 || l.started != 1 && !l.unstarted && !(l.stopping && n == last):
			return fmt.Errorf("incarnation %d of %d is not started once and ended once in the log:%s", n, last,
				around(c.lives, n))
		case l.lost != (n < last):
			return fmt.Errorf("incarnation %d of %d was lost: %v:%s", n, last, l.lost, around(c.lives, n))
		}
	}
	for i, f := range c.found {
		if c.hits[int(f.incarnation)] != (i < len(c.found)-1) {
			return fmt.Errorf("life %d of %d was killed: %v", i+1, len(c.found), c.hits[int(f.incarnation)])
		}
	}
	if restarts := len(c.lives) - 1; restarts < len(c.hits) || restarts > c.kills {
		return fmt.Errorf("%d restarts, expected one for each of %d to %d kills", restarts, len(c.hits), c.kills)
	}
	return nil
}

// checkLog checks that no line was printed twice, and that each line of a journal is in the log, however the process
// ended.
func (c counter) checkLog() error {
	logged := map[string]bool{}
	last := map[string]int{} // numbers, by the word before
	begins := false
	lines := slices.Collect(strings.Lines(string(c.output)))
	for i, line := range lines {
		word, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil || !slices.Contains([]string{"start", "ack", "stop"}, word):
			return fmt.Errorf("line %d of its log is %q", i+1, line)
		case n <= last[word]:
			return fmt.Errorf("line %d of its log is %q, after %s %d", i+1, line, word, last[word])
		case word == "ack" && !begins && n != last[word]+1:
			return fmt.Errorf("line %d of its log is %q, expected %d", i+1, line, last[word]+1)
		case word == "stop" && i < len(lines)-1:
			return fmt.Errorf("line %d of its log is %q, expected it as the last of %d lines", i+1, line, len(lines))
		}
		begins = word == "start"
		last[word] = n
		logged[word+" "+number] = true
	}
	for line := range strings.Lines(string(c.steps)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "ack ") && !logged[line] {
			return fmt.Errorf("its log lacks %q", line)
		}
	}
	for _, f := range c.found {
		if line := fmt.Sprintf("start %d", f.incarnation); !logged[line] {
			return fmt.Errorf("its log lacks %q", line)
		}
	}
	if !c.stopped || last["stop"] != last["start"] {
		return fmt.Errorf("its log ends with stop %d of life %d; in its journal: %v", last["stop"], last["start"],
			c.stopped)
	}
	return nil
}

// checkProgram checks the agents of the program: lives and hits by name.
func checkProgram(p project.Project, o trial.Options, lives map[string]map[uint64]*life, k *killer) []error {
	var errs []error
	unwritten, steps := 0, 0
	for _, name := range counters(o) {
		c, err := readCounter(p, o.Dir, name)
		c.lives, c.hits, c.kills = lives["chaos/"+name], k.hits[name], k.programs
		if err == nil {
			err = c.check()
		}
		errs = append(errs, err)
		unwritten += len(c.lives) - len(c.found)
		steps += strings.Count(string(c.steps), "\nack ")
	}
	o.Say("%d steps of %d agents of a program checked; it was killed %d times, and %d lives have not written a journal",
		steps, o.Program, k.programs, unwritten)
	return errs
}
