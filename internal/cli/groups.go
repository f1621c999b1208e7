package cli

// groups are the headings of the list of commands, and the commands below each, in
// the order in which help shows them.
func groups() []struct {
	title    string
	commands []string
} {
	return []struct {
		title    string
		commands []string
	}{
		{"Run", []string{"run", "up", "down", "reload", "patrol", "install", "backup", "restore"}},
		{"Look", []string{"status", "ps", "tree", "top", "logs", "attach", "events", "explain", "inbox", "doctor"}},
		{"Act", []string{
			"start", "stop", "restart", "suspend", "resume", "reset", "drain", "fire",
			"answer", "mail", "task", "order", "belief",
		}},
		{"Write", []string{"init", "add", "validate", "config", "schema"}},
		{"For agents", []string{"agent", "mcp"}},
		{"Sage", []string{"sage"}},
		{"Other", []string{"help", "man", "completion", "version"}},
	}
}
