package config

import "github.com/coppice-dev/coppice/internal/config/toml"

// readEnv reads a table of variables.
func readEnv(r *toml.Reader, v *toml.Value, into *agent) {
	if !r.Want(v, toml.KindTable, "a table of strings") {
		return
	}
	into.Env = make(map[string]string, len(v.Fields))
	for _, field := range v.Fields {
		if r.Want(field, toml.KindString, "a string") {
			into.Env[field.Name] = field.Text
		}
	}
}

// envFileKey returns the key of the files of an agent's environment variables.
func envFileKey() toml.Key[agent] {
	return toml.Key[agent]{

		Name: "env_file", Type: "string or array of strings",
		Doc: "files with more variables, one `KEY=VALUE` a line, relative to the directory of this file; " +
			"later ones win, and `env` wins over all. They are read at each start; when what is in them " +
			"changes, the agent is started again. See [Environment files](files.md#environment-files)",
		Also: []string{"env_files", "envfile", "environment_file", "dotenv"},
		Read: func(r *toml.Reader, v *toml.Value, into *agent) {
			into.EnvFiles = nil
			elements := v.Elements
			if v.Kind == toml.KindString {
				elements = []*toml.Value{v}
			} else if !r.Want(v, toml.KindArray, "a path or an array of paths") {
				return
			}
			for _, e := range elements {
				if file, ok := r.Text(e, "a path"); ok {
					into.EnvFiles = append(into.EnvFiles, file)
				}
			}
		},
	}
}
