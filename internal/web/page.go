package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
)

//go:embed assets templates
var files embed.FS

// view is a page that can be kept live. Its path ends with "/" if it is a prefix.
type view struct {
	path string
	load func(ctx context.Context, q query) (*page, error)
}

// query is a request for a page.
type query struct {
	rest   string     // of the path, after that of the view
	values url.Values // the parameters
	at     uint64     // the moment of the hub at which the page is loaded; 0 for a page that is opened
	parts  bool       // only the parts and what is followed are wanted: a stream has no use for the rest
	role   role
}

// version returns the version of what events tell of a node: for a page that is opened, always another one.
func (s *pages) version(q query, path string) any {
	if q.at == 0 {
		return new(byte)
	}
	return s.hub.version(path)
}

// get returns a parameter.
func (q query) get(name string) string { return q.values.Get(name) }

// page is the content of a page.
type page struct {
	title    string
	nav      string // the entry of the menu
	template string
	data     any
	parts    []part
	terminal string  // the agent whose screen the page shows; empty for none
	follow   *follow // what is added to a list of the page while it is open; nil for nothing
}

// part is an element of a page that is replaced when it changes.
type part struct {
	id   string // of the element
	list string // the id of the element that the part is a child of; empty for an element of the template
	html template.HTML
}

// follow is a list that items are added to.
type follow struct {
	list  string // id of the element
	first bool   // each item comes before all others, rather than after them
	items func(ctx context.Context, since since) iter.Seq2[item, error]
}

// since says what a browser has already: the number of an event, and a position in output.
type since struct {
	event    uint64
	position string
}

// item is a child of a list.
type item struct {
	html     template.HTML
	event    uint64 // its number, if it is an event
	position string // in output, after the item
}

// layout is what every page has around its content.
type layout struct {
	Title, Nav string
	Role       role
	Flash      string
	Live       string // the URL of the stream; empty if the page is not live
	Event      uint64 // number of the last event before the page was loaded
	Digest     string // of the parts
	Data       any
	parts      []part
}

// Operator reports whether the reader of the page may act.
func (l layout) Operator() bool { return l.Role == operator }

// ShowsNeeds reports whether the reader of the page sees what needs people, and may act on it.
func (l layout) ShowsNeeds() bool { return l.Operator() && (l.Nav == "overview" || l.Nav == "inbox") }

// Part returns an element.
func (l layout) Part(id string) template.HTML {
	for _, p := range l.parts {
		if p.id == id && p.list == "" {
			return p.html
		}
	}
	return ""
}

// List returns the children of an element.
func (l layout) List(id string) template.HTML {
	var b strings.Builder
	for _, p := range l.parts {
		if p.list == id {
			b.WriteString(string(p.html))
		}
	}
	return template.HTML(b.String()) //nolint:gosec // templates have made it
}

// parameters returns names and values as the parameters of a URL, without those that are empty.
func parameters(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// find returns the view of a path, and what of the path comes after that of the view.
func (s *pages) find(urlPath string) (v view, rest string, ok bool) {
	for _, v := range s.views {
		if rest, ok := strings.CutPrefix(urlPath, v.path); ok && strings.HasSuffix(v.path, "/") && v.path != "/" &&
			rest != "" {
			return v, rest, true
		}
		if v.path == urlPath {
			return v, "", true
		}
	}
	return view{}, "", false
}

// servePage answers with a page.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request, who visitor) {
	v, rest, ok := s.pages.find(r.URL.Path)
	if !ok {
		s.fail(w, fmt.Errorf("%w: this page has no %.100q", api.ErrNotFound, r.URL.Path))
		return
	}
	last, err := lastEvent(r.Context(), s.Client)
	if err != nil {
		s.fail(w, err)
		return
	}
	p, err := v.load(r.Context(), query{rest: rest, values: r.URL.Query(), role: who.role})
	if err != nil {
		s.fail(w, err)
		return
	}
	live := url.Values{"page": {r.URL.RequestURI()}}
	s.render(w, r, http.StatusOK, p.template, layout{
		Title: p.title, Nav: p.nav, Role: who.role, Data: p.data, parts: p.parts, Flash: s.sessions.takeDone(who),
		Live: "/live?" + live.Encode(), Event: last, Digest: digest(p.parts),
	})
}

// digest identifies what parts show.
func digest(parts []part) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%s %s %d ", p.id, p.list, len(p.html))
		h.Write([]byte(p.html))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// render answers with a page. r may be nil; then the answer is not compressed.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, name string, l layout) {
	var b bytes.Buffer
	if err := s.pages.templates.ExecuteTemplate(&b, name, l); err != nil {
		s.Logger.Error("a page cannot be made", "page", name, "error", err)
		http.Error(w, "internal error; the log of the page says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(w, r, status, b.Bytes())
}

// write answers with a text, compressed if the client takes that.
func write(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if r == nil || len(text) < 1024 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		w.Write(text)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzip.NewWriter(w)
	z.Write(text)
	z.Close()
}

// asset is a file that pages use.
type asset struct {
	url, contentType string
	content          []byte
}

// loadAssets reads the files. Their URLs change with their content, so browsers may keep them.
func loadAssets() map[string]asset {
	all := make(map[string]asset)
	entries, _ := files.ReadDir("assets")
	for _, e := range entries {
		content, _ := fs.ReadFile(files, "assets/"+e.Name())
		sum := sha256.Sum256(content)
		all[e.Name()] = asset{
			url: "/assets/" + hex.EncodeToString(sum[:6]) + "/" + e.Name(), content: content,
			contentType: mime.TypeByExtension(path.Ext(e.Name())),
		}
	}
	return all
}

// serveAsset answers with a file.
func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := s.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	if r.URL.Path == a.url {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	write(w, r, http.StatusOK, a.content)
}
