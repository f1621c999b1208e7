package config

// env reads a table of variables.
func (r *reader) env(v *value, into *agent) {
	if !r.want(v, isTable, "a table of strings") {
		return
	}
	into.Env = make(map[string]string, len(v.fields))
	for _, field := range v.fields {
		if r.want(field, isString, "a string") {
			into.Env[field.name] = field.text
		}
	}
}

// envFileKey is the key of the files of an agent's environment variables.
func envFileKey() key[agent] {
	return key[agent]{
		row{
			name: "env_file", typ: "string or array of strings",
			doc: "files with more variables, one `KEY=VALUE` a line, relative to the directory of this file; " +
				"later ones win, and `env` wins over all. They are read at each start; when what is in them " +
				"changes, the agent is started again. See [Environment files](files.md#environment-files)",
			also: []string{"env_files", "envfile", "environment_file", "dotenv"},
		},
		func(r *reader, v *value, into *agent) {
			into.EnvFiles = nil
			elements := v.elements
			if v.kind == isString {
				elements = []*value{v}
			} else if !r.want(v, isArray, "a path or an array of paths") {
				return
			}
			for _, e := range elements {
				if file, ok := r.text(e, "a path"); ok {
					into.EnvFiles = append(into.EnvFiles, file)
				}
			}
		},
	}
}
