package session

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// header says what a file is of.
type header struct {
	id     string // of the session
	sub    bool   // it is of a subagent of the session
	dir    string // working directory, without dots
	began  time.Time
	origin string // ID of the first entry
}

// whole reports whether everything is known.
func (h header) whole() bool { return validID().MatchString(h.id) && h.dir != "" && !h.began.IsZero() }

// maxHeader bounds the start of a file that is read for its header, in bytes. Instructions for the model are in it.
const maxHeader = 1 << 20

// maxField bounds a field of a header, in bytes.
const maxField = 4 << 10

// readHeader reads the header of a file, and returns how many bytes it has read. Fields that are not there yet are
// empty.
func readHeader(root *os.Root, cli agentcli.CLI, name string) (header, int64) {
	in, _, err := openFile(root, name)
	if err != nil {
		return header{}, 0
	}
	defer in.Close()
	start := &io.LimitedReader{R: in, N: maxHeader}
	h := parseHeader(cli, start)
	if cli == agentcli.Gemini && h.dir == "" { // it is written next to chats
		dir := path.Join(path.Dir(name), "..", ".project_root")
		h.dir = field(strings.TrimSpace(string(readStart(root, dir, maxField+1))))
	}
	if h.dir != "" {
		h.dir = path.Clean(h.dir)
	}
	return h, maxHeader - start.N
}

// parseHeader parses the start of a file, in lines that have ended.
func parseHeader(cli agentcli.CLI, text io.Reader) (h header) {
	for lines := bufio.NewReaderSize(text, 16<<10); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return h
		}
		h.add(cli, line)
		if h.whole() || cli != agentcli.Claude { // of the others, it is the first line
			return h
		}
	}
}

// field returns a field of a file, nothing if it is too long.
func field(text string) string {
	if len(text) > maxField {
		return ""
	}
	return text
}

// add parses a line.
func (h *header) add(cli agentcli.CLI, line []byte) {
	var l struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
		Dir       string `json:"cwd"`
		Timestamp string `json:"timestamp"`
		Start     string `json:"startTime"`
		Kind      string `json:"kind"`
		Payload   struct {
			ID        string `json:"id"`
			SessionID string `json:"session_id"`
			Dir       string `json:"cwd"`
			Timestamp string `json:"timestamp"`
		} `json:"payload"`
		Data struct {
			SessionID string `json:"sessionId"`
			Start     string `json:"startTime"`
			Context   struct {
				Dir string `json:"cwd"`
			} `json:"context"`
		} `json:"data"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	began := ""
	switch cli {
	case agentcli.Claude:
		setOnce(&h.id, l.SessionID)
		setOnce(&h.dir, l.Dir)
		began = l.Timestamp
	case agentcli.Codex:
		if l.Type == "session_meta" {
			h.id, h.dir, began = l.Payload.SessionID, l.Payload.Dir, l.Payload.Timestamp
			setOnce(&h.id, l.Payload.ID)
			h.sub = h.id != l.Payload.ID
		}
	case agentcli.Gemini:
		h.id, began, h.sub = l.SessionID, l.Start, l.Kind == "subagent"
	case agentcli.Copilot:
		if l.Type == "session.start" {
			h.id, h.dir, began, h.origin = l.Data.SessionID, l.Data.Context.Dir, l.Data.Start, l.ID
		}
	}
	h.id, h.dir, h.origin = field(h.id), field(h.dir), field(h.origin)
	if at, err := time.Parse(time.RFC3339, began); err == nil && h.began.IsZero() {
		h.began = at
	}
}

func setOnce(to *string, from string) {
	if *to == "" {
		*to = from
	}
}
