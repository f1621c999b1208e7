package foreground

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// LineWriter writes whole lines, one at a time. After an error it discards them, so a missing
// reader delays nothing.
type LineWriter struct {
	W    io.Writer
	Stop *Stopper
	mu   sync.Mutex
	err  error
}

func (w *LineWriter) Write(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if _, w.err = w.W.Write(line); w.err != nil {
		w.Stop.Broken()
	}
}

// WriteLine writes a line and a newline.
func (w *LineWriter) WriteLine(line string) { w.Write([]byte(line + "\n")) }

// Close returns the first error. Later lines are discarded, so that the summary is the end even if
// a stray process still writes.
func (w *LineWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.err
	w.err = os.ErrClosed
	return err
}

// PlainView writes lines: "path | text" for output, "path * text" for events.
type PlainView struct {
	LineWriter
	paint terminal.Paint
}

func NewPlainView(w io.Writer, tty bool, stop *Stopper) *PlainView {
	return &PlainView{LineWriter: LineWriter{W: w, Stop: stop}, paint: terminal.NewPaint(tty)}
}

func (v *PlainView) Event(e supervisor.Event) {
	if line := show.SupervisorLine(e, v.paint); line != "" {
		v.WriteLine(line)
	}
}

func (v *PlainView) Output(path string, _ uint64, line proc.Line) {
	if !line.Partial { // the whole line follows
		v.WriteLine(show.OutputLine(path, plaintext.Line(line.Text), v.paint))
	}
}

func (v *PlainView) Order(e event.Event) { v.WriteLine(show.OrderLine(e, v.paint)) }

func (v *PlainView) Watch(ctx context.Context, _ *controller.Controller) { <-ctx.Done() }

func (v *PlainView) Close(summary []string) error {
	for _, line := range summary {
		v.WriteLine(line)
	}
	return v.LineWriter.Close()
}

// JSONView writes one JSON object a line.
type JSONView struct{ LineWriter }

func NewJSONView(w io.Writer, stop *Stopper) *JSONView {
	return &JSONView{LineWriter{W: w, Stop: stop}}
}

// Record is a line of the --json output.
type Record struct {
	Time        time.Time       `json:"time"`
	Type        string          `json:"type"`
	Path        string          `json:"path"`
	Incarnation uint64          `json:"incarnation,omitempty"`
	Message     string          `json:"message"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// OutputData returns the data of an agent.output record.
func OutputData(stream string, more bool) json.RawMessage {
	data, _ := json.Marshal(struct {
		Stream string `json:"stream"`
		More   bool   `json:"more,omitempty"`
	}{stream, more})
	return data
}

func (v *JSONView) Put(r Record) {
	line, err := json.Marshal(r)
	if err != nil { // only Data could cause this, and it has only strings and numbers
		line, _ = json.Marshal(Record{Time: r.Time, Type: r.Type, Path: r.Path, Message: err.Error()})
	}
	v.Write(append(terminal.EscapeControls(line), '\n'))
}

func (v *JSONView) Event(e supervisor.Event) {
	if journal.Nested(e) {
		return
	}
	entry, _ := journal.Translate(e)
	v.Put(Record{
		Time: entry.Time, Type: string(entry.Type), Path: entry.Path, Incarnation: entry.Incarnation,
		Message: entry.Message, Data: entry.Data,
	})
}

func (v *JSONView) Output(path string, incarnation uint64, line proc.Line) {
	if line.Partial {
		return
	}
	v.Put(Record{
		Time: line.Time, Type: "agent.output", Path: path, Incarnation: incarnation, Message: line.Text,
		Data: OutputData(line.Stream.String(), line.More),
	})
}

func (v *JSONView) Order(e event.Event) {
	v.Put(Record{Time: e.Time, Type: string(e.Type), Path: e.Path, Message: e.Message, Data: e.Data})
}

func (v *JSONView) Watch(ctx context.Context, _ *controller.Controller) { <-ctx.Done() }

func (v *JSONView) Close([]string) error { return v.LineWriter.Close() }

// PlainLog is a slog handler that writes one line for people per record.
type PlainLog struct {
	Level slog.Level
	Write func([]byte)
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h PlainLog) Enabled(_ context.Context, l slog.Level) bool { return l >= h.Level }

// Handle writes a line such as "coppice: warning: MESSAGE (agent shop/db)".
func (h PlainLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("coppice: ")
	if r.Level == slog.LevelWarn {
		b.WriteString("warning: ")
	}
	b.WriteString(r.Message)
	var details []string
	add := func(a slog.Attr) bool {
		details = append(details, fmt.Sprintf("%s %v", a.Key, a.Value))
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if len(details) > 0 {
		b.WriteString(" (" + strings.Join(details, ", ") + ")")
	}
	h.Write([]byte(plaintext.Line(b.String()) + "\n"))
	return nil
}

// WithAttrs implements slog.Handler.
func (h PlainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup implements slog.Handler; nothing here uses groups.
func (h PlainLog) WithGroup(string) slog.Handler { return h }
