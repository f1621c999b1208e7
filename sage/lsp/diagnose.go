package lsp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
)

// diagnose publishes the diagnostics of all programs a fixed delay after the first of several
// changes: not after every key, but without waiting for a pause either.
func (s *server) diagnose(ctx context.Context, delay time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// The following analysis includes the changes made in the meantime.
		select {
		case <-s.changed:
		default:
		}
		if err := s.guard("diagnostics", s.publish); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot publish diagnostics", "error", err)
		}
	}
}

// publish sends the current diagnostics, and empty ones for files whose errors are gone.
func (s *server) publish() error {
	v := s.view()
	found := s.collect(v)
	s.mu.Lock()
	for path := range s.published {
		if _, ok := found[path]; !ok {
			found[path] = nil
		}
	}
	clear(s.published)
	for path, ds := range found {
		if len(ds) > 0 {
			s.published[path] = true
		}
	}
	s.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(found)) {
		p := publishParams{URI: v.uri(path), Diagnostics: append([]diagnostic{}, found[path]...)}
		if d, ok := v.documents[path]; ok {
			p.Version = &d.version
		}
		if err := s.send("", "textDocument/publishDiagnostics", p); err != nil {
			return err
		}
	}
	return nil
}

// collect returns the diagnostics of all files in the projects of the documents, by path. It has an
// entry for each document.
func (s *server) collect(v view) map[string][]diagnostic {
	found := map[string][]diagnostic{}
	collected := map[*project]bool{}
	for _, path := range slices.Sorted(maps.Keys(v.documents)) {
		d := v.documents[path]
		found[path] = append(found[path], faultOf(d.fault())...)
		p, _ := s.projectOf(path)
		// Without a project, each document is a project of its own.
		if p.main != nil && collected[p] {
			continue
		}
		collected[p] = true
		for file, ds := range projectFaults(p.fault) {
			found[file] = ds
		}
		seen := map[string]bool{}
		for _, a := range s.programs(v, path) {
			if a.err != nil {
				found[a.program.Entry] = append(found[a.program.Entry], faultOf(a.err)...)
				continue
			}
			if p.main == nil && a.module(path) == nil {
				continue
			}
			mine := map[string]bool{}
			for _, m := range a.info.Modules {
				mine[m.File.Name] = !seen[m.File.Name]
				seen[m.File.Name] = true
			}
			for _, d := range a.diagnostics {
				if name := d.Span.Position().Name; mine[name] {
					found[name] = append(found[name], v.diagnostic(d))
				}
			}
		}
	}
	for _, ds := range found {
		slices.SortStableFunc(ds, func(a, b diagnostic) int {
			return cmp.Or(cmp.Compare(a.Range.Start.Line, b.Range.Start.Line),
				cmp.Compare(a.Range.Start.Character, b.Range.Start.Character))
		})
	}
	return found
}

func (v view) diagnostic(d diag.Diagnostic) diagnostic {
	result := diagnostic{Range: rangeOf(d.Span), Severity: severityError, Code: d.Code, Source: "sage",
		Message: d.Message}
	if d.Severity == diag.Warning {
		result.Severity = severityWarning
	}
	if d.Help != "" {
		result.Message += "\nhelp: " + d.Help
	}
	for _, r := range d.Related {
		if r.Span.Valid() {
			result.Related = append(result.Related, related{Location: v.location(r.Span), Message: r.Message})
		}
	}
	return result
}

func faultOf(err error) []diagnostic {
	if err == nil {
		return nil
	}
	return []diagnostic{{Severity: severityError, Source: "sage", Message: err.Error()}}
}

// projectFaults returns the errors of the project's files, by path.
func projectFaults(err error) map[string][]diagnostic {
	found := map[string][]diagnostic{}
	for _, f := range load.Faults(err) {
		p := position{max(f.Line-1, 0), max(f.Column-1, 0)}
		message := f.Message
		if f.Hint != "" {
			message += "\nhelp: " + f.Hint
		}
		found[f.File] = append(found[f.File], diagnostic{Range: textRange{p, p}, Severity: severityError,
			Source: "coppice", Message: message})
	}
	return found
}
