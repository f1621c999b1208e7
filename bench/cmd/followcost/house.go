//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// projects are the directories that other sessions of claude are spread over.
const projects = 20

// house is the home of a user.
type house struct {
	home string
	cli  agentcli.CLI
	day  string // of codex
}

func newHouse(o options, home string) (*house, error) {
	if o.cli != agentcli.Claude && o.cli != agentcli.Codex {
		return nil, fmt.Errorf("unknown command line %q", o.cli)
	}
	return &house{home, o.cli, time.Now().Format("2006/01/02")}, nil
}

// root returns the directory of the files.
func (h *house) root() string {
	if h.cli == agentcli.Claude {
		return filepath.Join(h.home, ".claude")
	}
	return filepath.Join(h.home, ".codex")
}

// work returns the working directory of an agent.
func (h *house) work(agent int) string { return filepath.Join(h.home, "work", fmt.Sprint(agent)) }

// path returns the path of the file of a session in a project.
func (h *house) path(project, id string) string {
	if h.cli == agentcli.Claude {
		return filepath.Join(h.root(), "projects", project, id+".jsonl")
	}
	return filepath.Join(h.root(), "sessions", h.day, "rollout-2026-01-01T00-00-00-"+id+".jsonl")
}

func (h *house) other(i int) string {
	return h.path(fmt.Sprint("-other-", i%projects), fmt.Sprintf("%08d-2b0d-7290-a8af-7216c039fa2a", i))
}

// others writes the files of other sessions.
func (h *house) others(n int) error {
	text := h.head("other-session", filepath.Join(h.home, "elsewhere"))
	for i := range n {
		if err := write(h.other(i), text); err != nil {
			return err
		}
	}
	return nil
}

// write appends a line to the file of another session.
func (h *house) write(i int) error { return write(h.other(i), "{}\n") }

// begin writes the file of a session of an agent, under its name when it is complete.
func (h *house) begin(agent int) error {
	id := fmt.Sprintf("agent-%03d-2b0d-7290-a8af-7216c039fa2a", agent)
	path := h.path("-work", id)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	used := fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":"m","usage":{"input_tokens":1}}}`, at)
	if h.cli == agentcli.Codex {
		used = fmt.Sprintf(`{"timestamp":%q,"type":"token_usage_record","payload":{"response_id":"r",`+
			`"usage":{"input_tokens":1}}}`, at)
	}
	temporary := filepath.Join(h.home, "new")
	err := write(temporary, h.head(id, h.work(agent))+used+"\n")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	return err
}

// padding is as long as what a command line writes before the first message.
var padding = strings.Repeat("x", 2<<10)

// head returns the start of the file of a session.
func (h *house) head(id, dir string) string {
	at := time.Now().UTC().Format(time.RFC3339Nano)
	if h.cli == agentcli.Claude {
		return fmt.Sprintf(`{"type":"user","timestamp":%q,"sessionId":%q,"cwd":%q,"message":%q}`+"\n",
			at, id, dir, padding)
	}
	return fmt.Sprintf(`{"timestamp":%q,"type":"session_meta","payload":{"session_id":%q,"id":%[2]q,`+
		`"timestamp":%[1]q,"cwd":%[3]q,"base_instructions":%[4]q}}`+"\n", at, id, dir, padding)
}

// write appends to a file.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
