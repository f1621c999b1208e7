package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// groups are the headings of the list of commands, and what is below each.
func groups() []struct {
	title    string
	commands []string
} {
	return []struct {
		title    string
		commands []string
	}{
		{"A fleet from its file to its end:", []string{"init", "validate", "run", "up", "down", "reload", "patrol", "backup", "restore", "install"}},
		{"What there is, and why:", []string{"status", "ps", "tree", "top", "logs", "attach", "events", "explain", "doctor", "config", "schema"}},
		{"Agents:", []string{"start", "stop", "restart", "suspend", "resume", "reset", "drain", "belief", "add", "fire"}},
		{"Work, and people:", []string{"task", "order", "inbox", "answer", "mail"}},
		{"For agents themselves:", []string{"agent", "mcp"}},
		{"Sage programs:", []string{"new", "check", "test", "fmt", "lsp"}},
	}
}

// grouped puts the commands that it lists below their headings.
func grouped(root *cobra.Command) {
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, sub := range root.Commands() {
			if slices.Contains(g.commands, sub.Name()) {
				sub.GroupID = g.title
			}
		}
	}
}
