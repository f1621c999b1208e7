package web

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/output"
)

const (
	shownLines = 200    // of a log, when its page is opened
	rawLines   = 10_000 // of a log as a text
)

// logLine is a line of a log, or the boundary between two incarnations.
type logLine struct {
	ID      string
	Time    time.Time
	HTML    template.HTML
	Between *output.Between
}

// logQuery is the output that the page of an agent shows.
func logQuery(path string, q query) output.Query {
	return output.Query{Paths: []string{path}, Lines: shownLines, Grep: q.get("grep")}
}

// logItems yields the lines of an agent's output after a position, and those to come.
func (s *pages) logItems(path string, q query) func(context.Context, since) iter.Seq2[item, error] {
	return func(ctx context.Context, after since) iter.Seq2[item, error] {
		return func(yield func(item, error) bool) {
			query := logQuery(path, q)
			query.Follow = true
			if after.position != "" {
				query.After = map[string]string{path: after.position}
			}
			for line, err := range output.Logs(ctx, s.Client, query) {
				if err != nil {
					yield(item{}, err)
					return
				}
				if line.Live {
					continue
				}
				html, err := s.renderPart("line", lineOf(line))
				if !yield(item{html: html, position: line.Position}, err) || err != nil {
					return
				}
			}
		}
	}
}

// lineOf returns a line as it is shown.
func lineOf(l output.Line) logLine {
	shown := logLine{Time: l.Time, Between: l.Between}
	if l.Between == nil {
		shown.HTML = coloured(l.Line)
	} else if l.Between.Began > 0 {
		shown.ID = fmt.Sprintf("inc-%d", l.Between.Began)
	}
	return shown
}

// lines returns the last lines of an agent's output, and the position after them.
func (s *pages) lines(ctx context.Context, q output.Query) (html template.HTML, position string, err error) {
	var b strings.Builder
	q.Follow = true // since only followers get positions
	for line, err := range output.Logs(ctx, s.Client, q) {
		if err != nil {
			return "", "", err
		}
		if line.Live {
			break
		}
		one, err := s.renderPart("line", lineOf(line))
		if err != nil {
			return "", "", err
		}
		b.WriteString(string(one))
		if line.Position != "" {
			position = line.Position
		}
	}
	return template.HTML(b.String()), position, nil //nolint:gosec // templates have made it
}

// rawLog answers with the last lines of an agent's output as a text.
func (s *Server) rawLog(w http.ResponseWriter, r *http.Request, _ visitor) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	began := false
	for line, err := range output.Logs(r.Context(), s.Client, output.Query{
		Paths: []string{r.PathValue("path")}, Lines: rawLines,
	}) {
		switch {
		case err != nil && began:
			panic(http.ErrAbortHandler) // so that half of it is not taken for the whole
		case err != nil:
			s.fail(w, err)
			return
		case line.Between == nil:
			began = true
			io.WriteString(w, line.Line+"\n")
		}
	}
}
