package web

import (
	"fmt"
	"html/template"
	"net/url"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/status"
)

// pages makes pages of what the daemon knows.
type pages struct {
	Client    *api.Client
	File      string // the configuration of the project
	hub       *hub
	templates *template.Template
	views     []view
	drawn     drawn
	terminals *terminals
}

func newPages(c *api.Client, file string, h *hub, terminals *terminals, templates *template.Template) *pages {
	s := &pages{Client: c, File: file, hub: h, terminals: terminals, templates: templates}
	s.views = s.allViews()
	return s
}

// allViews returns all pages that can be kept live.
func (s *pages) allViews() []view {
	return []view{
		{"/", s.overview},
		{"/tree", s.treePage},
		{"/agent/", s.agentPage},
		{"/events", s.eventsPage},
		{"/events/", s.eventPage},
		{"/inbox", s.inboxPage},
		{"/tasks", s.tasksPage},
		{"/tasks/", s.taskPage},
		{"/work", s.workPage},
		{"/orders/", s.orderPage},
		{"/cost", s.costPage},
		{"/config", s.configPage},
		{"/system", s.systemPage},
	}
}

// entry is an entry of the menu.
type entry struct {
	Name, Label, URL, Key string
}

// menu returns the entries of the menu, with the letters that open them after g.
func menu() []entry {
	return []entry{
		{"overview", "Overview", "/", "o"},
		{"tree", "Tree", "/tree", "t"},
		{"inbox", "Inbox", "/inbox", "i"},
		{"events", "Events", "/events", "e"},
		{"tasks", "Tasks", "/tasks", "k"},
		{"work", "Orders", "/work", "p"},
		{"cost", "Cost", "/cost", "q"},
		{"config", "Configuration", "/config", "c"},
		{"system", "System", "/system", "s"},
	}
}

// parseTemplates parses the templates of all pages.
func parseTemplates(assets map[string]asset) *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"asset":    func(name string) string { return assets[name].url },
		"menu":     menu,
		"actions":  actions,
		"agentURL": agentURL,
		"eventURL": func(number uint64) string { return fmt.Sprintf("/events/%d", number) },
		"coloured": coloured,
		"stamp":    stampOf,
		"tone":     status.ToneOf,
		"words":    status.StateWords,
		"taskURL":  taskURL,
		"query":    url.QueryEscape,
		"used":     usedText,
		"percent":  func(share float64) int { return int(share * 100) },
		"indent":   func(depth int) int { return min(depth, 8) },
	})
	return template.Must(t.ParseFS(files, "templates/*.html"))
}
