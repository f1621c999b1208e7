package fakeagent

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Call is a call of a fake, as it is recorded in the directory of the run.
type Call struct {
	Agent    string       `json:"agent,omitempty"` // empty outside of an agent
	CLI      agentcli.CLI `json:"cli"`
	Number   uint64       `json:"number"` // of the calls of the agent, from 1
	Scenario Scenario     `json:"scenario"`
}

const callsName = "calls.jsonl"

// maxCall bounds a line of the record, in bytes.
const maxCall = 8 << 10

// record numbers a call of an agent, lets decide choose what it plays, and records that. Calls of other processes
// wait meanwhile.
func (s Setting) record(agent string, cli agentcli.CLI, decide func(number uint64) Scenario) error {
	f, err := os.OpenFile(filepath.Join(s.Dir, callsName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // until the file is closed
		return fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	c := Call{Agent: agent, CLI: cli, Number: 1}
	for before := range readCalls(f) {
		if before.Agent == agent {
			c.Number = before.Number + 1
		}
	}
	c.Scenario = decide(c.Number)
	line, err := json.Marshal(c)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return err
}

// readCalls returns the calls in a record. Lines that are none are skipped.
func readCalls(r io.Reader) func(yield func(Call) bool) {
	return func(yield func(Call) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxCall)
		for lines.Scan() {
			var c Call
			if json.Unmarshal(lines.Bytes(), &c) == nil && !yield(c) {
				return
			}
		}
	}
}

// Calls returns the calls of a run so far.
func (s Setting) Calls() (all []Call, err error) {
	f, err := os.Open(filepath.Join(s.Dir, callsName))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for c := range readCalls(f) {
		all = append(all, c)
	}
	return all, nil
}

const leftName = "left"

// recordLeft records a process that was left behind.
func (s Setting) recordLeft(pid int) error {
	f, err := os.OpenFile(filepath.Join(s.Dir, leftName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, pid)
	return cmp.Or(err, f.Close())
}

// Left returns the ids of the processes that calls have left behind, whether or not they still run.
func (s Setting) Left() (pids []int) {
	text, _ := os.ReadFile(filepath.Join(s.Dir, leftName))
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}
