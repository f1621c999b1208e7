package web

import (
	"html/template"
	"sync"
)

// maxDrawn bounds the parts that are kept.
const maxDrawn = 20_000

// drawn keeps parts of pages that were rendered, since most do not change from one moment to the next, and are the
// same for all viewers.
type drawn struct {
	mu    sync.Mutex
	parts map[string]drawnPart // by a name
}

type drawnPart struct {
	version any
	html    template.HTML
}

// get returns a part. It is rendered if it was not, or in another version; versions are compared by ==.
func (d *drawn) get(name string, version any, render func() (template.HTML, error)) (template.HTML, error) {
	d.mu.Lock()
	p, ok := d.parts[name]
	d.mu.Unlock()
	if ok && p.version == version {
		return p.html, nil
	}
	html, err := render()
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parts == nil || len(d.parts) >= maxDrawn && !ok {
		d.parts = make(map[string]drawnPart)
	}
	d.parts[name] = drawnPart{version, html}
	return html, nil
}
