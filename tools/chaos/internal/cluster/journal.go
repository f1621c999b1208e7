package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
)

// onceScript is an agent that holds a lock while it runs, and notes if another one has it: SHARED NAME KIND. Its child,
// which outlives a shim that is killed, holds the lock as well. All times are on the clock of /proc/uptime.
const onceScript = `read -r era < "$1/era"
exec 9>> "$1/$2.$era.lock"
flock -n -E 75 9
case $? in
0) ;;
75) echo "$2 of ${PWD##*/}, incarnation $COPPICE_INCARNATION" >> "$1/violations"; exit 1;;
*) exit 1;;
esac
[ "$3" = calm ] || trap "" TERM
setsid sleep 1000000 &
read -r up rest < /proc/uptime
echo "$2 ${PWD##*/} $COPPICE_INCARNATION $$ $up" >> "$1/journal"
exec sleep 1000000
`

// life is a line of the journal that all agents share.
type life struct {
	name, node  string
	incarnation uint64
	pid         int
	up          time.Duration // when it was started
}

// journal has what the agents have noted in a directory.
type journal struct {
	dir   string
	read  int64             // bytes of the file
	last  map[string]life   // by name
	lives map[string]int    // in this round, by name
	were  map[string]string // the nodes at the beginning of this round, by name
}

func newJournal(dir string) (*journal, error) {
	j := &journal{dir: dir, last: map[string]life{}}
	j.begin()
	return j, errors.Join(os.Mkdir(dir, 0o700), j.newEra(0),
		os.WriteFile(filepath.Join(dir, "agent.sh"), []byte(onceScript), 0o600),
		os.WriteFile(filepath.Join(dir, "journal"), nil, 0o600))
}

// newEra has later agents ignore the locks of those before, which were paused and cannot be stopped in time.
func (j *journal) newEra(n int) error {
	name := filepath.Join(j.dir, "era")
	if err := os.WriteFile(name+".new", []byte(strconv.Itoa(n)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// begin begins a round.
func (j *journal) begin() {
	j.lives, j.were = map[string]int{}, map[string]string{}
	for name, l := range j.last {
		j.were[name] = l.node
	}
}

// update reads what is new.
func (j *journal) update() error {
	if text, err := os.ReadFile(filepath.Join(j.dir, "violations")); err == nil {
		return fmt.Errorf("agents have run twice at the same time:\n%s", text)
	}
	f, err := os.Open(filepath.Join(j.dir, "journal"))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	text := make([]byte, info.Size()-j.read)
	if _, err := f.ReadAt(text, j.read); err != nil && len(text) > 0 {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	j.read += int64(len(text))
	for line := range strings.Lines(string(text)) {
		if err := j.take(line); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) take(line string) error {
	var l life
	var up float64
	if _, err := fmt.Sscan(line, &l.name, &l.node, &l.incarnation, &l.pid, &up); err != nil {
		return fmt.Errorf("line %q of the journal: %w", line, err)
	}
	l.up = time.Duration(up * float64(time.Second))
	if before := j.last[l.name]; l.incarnation <= before.incarnation {
		return fmt.Errorf("%s: incarnation %d on node %s was started after %d on node %s", l.name, l.incarnation,
			l.node, before.incarnation, before.node)
	}
	j.last[l.name] = l
	j.lives[l.name]++
	return nil
}

// running returns an error unless all of n agents run.
func (j *journal) running(n int) error {
	if err := j.update(); err != nil {
		return err
	}
	if len(j.last) != n {
		return fmt.Errorf("%d of %d agents have been started", len(j.last), n)
	}
	gone, on := 0, map[string]int{}
	for _, l := range j.last {
		if s := process.State(l.pid); s == "" || s == "Z" {
			gone++
			continue
		}
		on[l.node]++
	}
	if gone > 0 {
		return fmt.Errorf("%d agents do not run, the others do on these nodes: %v", gone, on)
	}
	return nil
}

// quiet returns an error if an agent was started more often in this round than it may be. Those that were not on the
// node that was struck may not have been started at all.
func (j *journal) quiet(struck string, most int) error {
	for name, n := range j.lives {
		if were := j.were[name]; were != "" && were != struck {
			return fmt.Errorf("%s was on node %s, which was not struck, and was started %d times, now on node %s", name,
				were, n, j.last[name].node)
		}
		if n > most {
			return fmt.Errorf("%s was started %d times, expected at most %d", name, n, most)
		}
	}
	return nil
}

// on returns how many agents run on a node, as far as the journal knows.
func (j *journal) on(node string) (n int) {
	for _, l := range j.last {
		if s := process.State(l.pid); l.node == node && s != "" && s != "Z" {
			n++
		}
	}
	return n
}

// latest returns when the last agent was started in this round.
func (j *journal) latest() (at time.Duration) {
	for name := range j.lives {
		at = max(at, j.last[name].up)
	}
	return at
}

// uptime returns the time on the clock of the journal.
func uptime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	up, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	return time.Duration(up * float64(time.Second)), err
}
