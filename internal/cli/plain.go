package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// lineWriter writes whole lines, one at a time. After an error it drops
// everything, so that a reader that is gone delays nothing.
type lineWriter struct {
	w    io.Writer
	stop *stopper
	mu   sync.Mutex
	err  error
}

func (w *lineWriter) write(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if _, w.err = w.w.Write(line); w.err != nil {
		w.stop.broken()
	}
}

// close returns the first error. Nothing is written after it: the last lines
// are the last ones, whatever a straggler that left its group has to say.
func (w *lineWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	w.err = os.ErrClosed
	return err
}

// plainView writes lines: "path | text" for output, "path * text" for events.
type plainView struct {
	lineWriter
	paint paint
}

func newPlainView(w io.Writer, tty bool, stop *stopper) *plainView {
	return &plainView{lineWriter: lineWriter{w: w, stop: stop}, paint: newPaint(tty)}
}

func (v *plainView) Event(e supervisor.Event) {
	if entry, text := describe(e); text != "" {
		v.write(fmt.Appendf(nil, "%s %s %s\n", entry.Path, v.paint.dim("*"),
			v.paint.eventType(entry.Type, proc.Plain(text))))
	}
}

func (v *plainView) Output(path string, _ uint64, line proc.Line) {
	if line.Partial { // it comes as a whole
		return
	}
	v.write(fmt.Appendf(nil, "%s %s %s\n", path, v.paint.dim("|"), proc.Plain(line.Text)))
}

func (v *plainView) Order(e event.Event) {
	v.write(fmt.Appendf(nil, "%s\n", orderLine(e, v.paint)))
}

func (v *plainView) Watch(ctx context.Context, _ *daemon.Controller) { <-ctx.Done() }

func (v *plainView) Close(summary []string) error {
	for _, line := range summary {
		v.write([]byte(line + "\n"))
	}
	return v.lineWriter.close()
}

// jsonView writes one JSON object a line.
type jsonView struct{ lineWriter }

func newJSONView(w io.Writer, stop *stopper) *jsonView {
	return &jsonView{lineWriter{w: w, stop: stop}}
}

// record is a line of --json.
type record struct {
	Time        time.Time       `json:"time"`
	Type        string          `json:"type"`
	Path        string          `json:"path"`
	Incarnation uint64          `json:"incarnation,omitempty"`
	Message     string          `json:"message"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// outputData returns the data of a line of output.
func outputData(stream string, more bool) json.RawMessage {
	data, _ := json.Marshal(struct {
		Stream string `json:"stream"`
		More   bool   `json:"more,omitempty"`
	}{stream, more})
	return data
}

func (v *jsonView) put(r record) {
	line, err := json.Marshal(r)
	if err != nil { // only data could be at fault, and it is strings and numbers
		line, _ = json.Marshal(record{Time: r.Time, Type: r.Type, Path: r.Path, Message: err.Error()})
	}
	v.write(append(terminal.Inert(line), '\n'))
}

func (v *jsonView) Event(e supervisor.Event) {
	if journal.Nested(e) {
		return
	}
	entry, _ := journal.Translate(e)
	v.put(record{
		Time: entry.Time, Type: string(entry.Type), Path: entry.Path, Incarnation: entry.Incarnation,
		Message: entry.Message, Data: entry.Data,
	})
}

func (v *jsonView) Output(path string, incarnation uint64, line proc.Line) {
	if line.Partial {
		return
	}
	v.put(record{
		Time: line.Time, Type: "agent.output", Path: path, Incarnation: incarnation, Message: line.Text,
		Data: outputData(line.Stream.String(), line.More),
	})
}

func (v *jsonView) Order(e event.Event) {
	v.put(record{Time: e.Time, Type: string(e.Type), Path: e.Path, Message: e.Message, Data: e.Data})
}

func (v *jsonView) Watch(ctx context.Context, _ *daemon.Controller) { <-ctx.Done() }

func (v *jsonView) Close([]string) error { return v.lineWriter.close() }
