package config

import (
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/pipeline"
)

func pullRequestTable() toml.Table[pipeline.PullRequest] {
	return toml.Table[pipeline.PullRequest]{
		Header: "[agent.pipeline.pull_request]",
		Doc: "Makes each change a pull request. `pull_request = true` is short for an empty table. See " +
			"[Pull requests](pipeline.md#pull-requests).",
		Example: `[[agent]]
name = "fixer"
command = "claude -p --output-format stream-json --verbose --permission-mode acceptEdits"

[agent.pipeline]
branch = "main"
test = "make test"
pull_request = { remote = "upstream", draft = true }
`,
		Keys: []toml.Key[pipeline.PullRequest]{
			{Name: "remote", Type: "string", Default: pipeline.DefaultRemote,
				Doc: "the remote of `repository` that is a repository on GitHub, and gets the branches and the pull " +
					"requests",
				Read: toml.Text(func(p *pipeline.PullRequest) *string { return &p.Remote })},
			{Name: "draft", Type: "boolean", Default: "false", Doc: "whether they are drafts",
				Read: toml.Bool(func(p *pipeline.PullRequest) *bool { return &p.Draft })},
		},
	}
}

func readPullRequest(r *toml.Reader, v *toml.Value, into *pipelineForm) {
	p := &pipeline.PullRequest{Remote: pipeline.DefaultRemote}
	on := v.Kind == toml.KindTable
	if on {
		pullRequestTable().Read(r, v, p)
	} else {
		toml.Bool(func(*pipelineForm) *bool { return &on })(r, v, into)
	}
	if on {
		into.PullRequest = p
	}
}
