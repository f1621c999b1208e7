package setting

import (
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/spec"
)

// ProjectName returns the default of the project's name.
func ProjectName(dir string) string {
	if name := filepath.Base(dir); spec.CheckName(name) == "" {
		return name
	}
	return "root"
}
