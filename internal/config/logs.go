package config

import (
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// logsTable reads [logs], or [agent.logs].
func logsTable(header, doc, example string, sizeDefault, keepDefault string) toml.Table[spec.Logs] {
	return toml.Table[spec.Logs]{
		Header: header, Doc: doc, Example: example,
		Keys: []toml.Key[spec.Logs]{
			{Name: "max_size", Type: "size", Default: sizeDefault, Doc: "how large a log file becomes before it " +
				"is rotated, at least 1 KiB: `output.log` becomes `output.log.1`, which becomes `output.log.2`, " +
				"and so on. It is rotated between two lines",
				Also: []string{"size", "max-size", "maxsize", "rotate_size",
					"max_bytes"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Logs) {
					switch n, ok := r.Size(v); {
					case ok && n < spec.MinLogSize:
						r.Fail(v, "", "max_size is %s, expected at least 1 KiB", v.Text)
					case ok:
						into.MaxSize = n
					}
				}},
			{Name: "keep", Type: "integer", Default: keepDefault,
				Doc:  "how many rotated files are kept, 1 to 100, besides the one that is written",
				Also: []string{"max_file", "max-file", "max_files", "rotate", "backups", "max_backups", "count"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Logs) {
					if n, ok := r.Integer(v, 1, spec.MaxLogFiles, "an integer from 1 to 100"); ok {
						into.Keep = int(n)
					}
				}},
		},
	}
}

func allLogsTable() toml.Table[spec.Logs] {
	return logsTable("[logs]",
		"How much output is kept of each agent. An agent that runs keeps to what held when it was started. "+
			"[Logs](logs.md) says where it is and how it is read.",
		`[logs]
max_size = "50MB"
keep = 5
`, "10MiB", "3")
}

func agentLogsTable() toml.Table[spec.Logs] {
	return logsTable("[agent.logs]", "How much output is kept of one agent.", `[[agent]]
name = "builder"
command = "./build.sh"
logs = { max_size = "100MB", keep = 10 }
`, "that of `[logs]`", "that of `[logs]`")
}
