package config

import "github.com/coppice-dev/coppice/internal/config/toml"

// filesKey returns the key of the files that an agent is made of.
func filesKey() toml.Key[agent] {
	return toml.Key[agent]{

		Name: "files", Type: "array of strings",
		Doc: "files that it reads when it starts, relative to `dir`: when what is in them changes, it is " +
			"started again, as if the file of the project had changed. See [The patrol](patrol.md)",
		Also: []string{"file", "copy_files", "watch_files", "config_files"},
		Read: func(r *toml.Reader, v *toml.Value, into *agent) {
			if files, ok := r.List(v, "an array of paths"); ok {
				into.Files = files
			}
		},
	}
}
