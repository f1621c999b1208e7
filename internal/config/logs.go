package config

import (
	"github.com/coppice-dev/coppice/internal/spec"
)

// logsTable reads [logs], or [agent.logs].
func logsTable(header, doc, example string, sizeDefault, keepDefault string) table[spec.Logs] {
	return table[spec.Logs]{
		header: header, doc: doc, example: example,
		keys: []key[spec.Logs]{
			{row{name: "max_size", typ: "size", def: sizeDefault, doc: "how large a log file becomes before it is " +
				"rotated, 1 KiB at least: `output.log` becomes `output.log.1`, that `output.log.2`, and so on. It " +
				"is rotated between two lines", also: []string{"size", "max-size", "maxsize", "rotate_size",
				"max_bytes"}},
				func(r *reader, v *value, into *spec.Logs) {
					switch n, ok := r.size(v); {
					case ok && n < spec.MinLogSize:
						r.fail(v.at, v, "", "max_size is %s, expected at least 1 KiB", v.text)
					case ok:
						into.MaxSize = n
					}
				}},
			{row{name: "keep", typ: "integer", def: keepDefault,
				doc:  "how many rotated files are kept, 1 to 100, besides the one that is written",
				also: []string{"max_file", "max-file", "max_files", "rotate", "backups", "max_backups", "count"}},
				func(r *reader, v *value, into *spec.Logs) {
					if n, ok := r.integer(v, 1, spec.MaxLogFiles, "an integer from 1 to 100"); ok {
						into.Keep = int(n)
					}
				}},
		},
	}
}

func allLogsTable() table[spec.Logs] {
	return logsTable("[logs]",
		"How much output is kept of each agent. An agent that runs keeps to what held when it was started. "+
			"[Logs](logs.md) says where it is and how it is read.",
		`[logs]
max_size = "50MB"
keep = 5
`, "10MiB", "3")
}

func agentLogsTable() table[spec.Logs] {
	return logsTable("[agent.logs]", "How much output is kept of one agent.", `[[agent]]
name = "builder"
command = "./build.sh"
logs = { max_size = "100MB", keep = 10 }
`, "that of `[logs]`", "that of `[logs]`")
}
