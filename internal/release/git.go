package release

import gitcmd "github.com/coppice-dev/coppice/internal/git"

// runner returns what runs git commands on a git directory; on that of the current directory if it is empty. Trailers
// mean the same everywhere.
func runner(dir string) gitcmd.Runner {
	return gitcmd.Runner{Dir: dir, Env: []string{"GIT_LITERAL_PATHSPECS=1"}, Config: []string{
		"core.commentChar=#", "trailer.separators=:", "i18n.commitEncoding=UTF-8", "i18n.logOutputEncoding=UTF-8",
	}}
}
