package agentcli

import "github.com/coppice-dev/coppice/internal/lazyregexp"

// Measured returns the versions of a command line with which this package was measured, the newest last.
func Measured(cli CLI) []string {
	switch cli {
	case Claude:
		return []string{"2.1.197", "2.1.330", "2.1.332"}
	case Codex:
		return []string{"0.169.0", "0.171.0"}
	case Gemini:
		return []string{"0.61.0"}
	case Opencode:
		return []string{"1.18.33"}
	case Copilot:
		return []string{"1.0.102"}
	}
	return nil
}

// version is a version in the output of --version.
var version = lazyregexp.New(`\d+\.\d+\.\d+`)

// VersionIn returns the version in what a command line prints with --version; empty if there is none.
func VersionIn(output string) string { return version().FindString(output) }

// Age compares a version of a command line with those that were measured: -1 if it is older than all of them, 0 if
// it is between them, 1 if it is newer.
func Age(cli CLI, version string) int {
	all := Measured(cli)
	switch {
	case len(all) == 0:
		return 0
	case older(version, all[0]):
		return -1
	case older(all[len(all)-1], version):
		return 1
	}
	return 0
}
