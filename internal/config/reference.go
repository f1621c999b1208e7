package config

import (
	_ "embed" // referenceHead
	"io"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

// sections returns all tables, in the order of the reference page.
func sections() []toml.Section {
	return []toml.Section{
		fileTable().Section(), projectTable().Section(), supervisionTable().Section(), daemonTable().Section(),
		aideTable().Section(), persistenceTable().Section(), allLogsTable().Section(), supervisorTable().Section(),
		agentTable().Section(), limitsTable().Section(), agentLogsTable().Section(), backoffTable().Section(),
		shutdownTable().Section(), readyTable().Section(), nudgeTable().Section(), beliefTable().Section(),
		hookTable("on_waking").Section(), poolTable().Section(), ordersTable().Section(), orderTable().Section(),
		taskTable().Section(), patchesSection(),
	}
}

//go:embed head.md
var referenceHead string

// WriteReference writes the reference page of coppice.toml, in Markdown.
func WriteReference(w io.Writer) error {
	return toml.WritePage(w, referenceHead, sections())
}
