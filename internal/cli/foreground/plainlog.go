package foreground

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// PlainLog is a slog.Handler for people: each record is one line, as all others
// that a command writes.
type PlainLog struct {
	Level slog.Level
	Write func([]byte)
	attrs []slog.Attr
}

// Enabled is part of slog.Handler.
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
	h.Write([]byte(proc.Plain(b.String()) + "\n"))
	return nil
}

// WithAttrs is part of slog.Handler.
func (h PlainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup is part of slog.Handler. Nothing here has groups.
func (h PlainLog) WithGroup(string) slog.Handler { return h }
