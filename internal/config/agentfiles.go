package config

// filesKey is the key of the files that an agent is made of.
func filesKey() key[agent] {
	return key[agent]{
		row{
			name: "files", typ: "array of strings",
			doc: "files that it reads when it starts, relative to `dir`: when what is in them changes, it is " +
				"started again, as if the file of the project had changed. See [The patrol](patrol.md)",
			also: []string{"file", "copy_files", "watch_files", "config_files"},
		},
		func(r *reader, v *value, into *agent) {
			if files, ok := r.list(v, "an array of paths"); ok {
				into.Files = files
			}
		},
	}
}
