package setting

import (
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// ProjectName returns the default name of the project in dir.
func ProjectName(dir string) string {
	if name := filepath.Base(dir); spec.CheckName(name) == "" {
		return name
	}
	return "root"
}

// Name returns the read function of a name that is a segment of paths.
func Name[T any](field func(*T) *string) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		name, ok := r.Text(v, "a string")
		if !ok {
			return
		}
		if fault := spec.CheckName(name); fault != "" {
			r.Fail(v, "", "%s", fault)
			return
		}
		*field(into) = name
	}
}
