package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Tree changes a tree so that its agents and orders call fakes. The error names the first agent of which that is not
// certain.
func (s *Sandbox) Tree(t *spec.Tree) error {
	t.Persistence.Path = "" // in State
	var paths []string
	for path, c := range t.All() {
		a := c.Agent
		if c.Node != nil {
			a = c.Node.Template
		}
		if a == nil {
			continue
		}
		paths = append(paths, path)
		if err := s.agent(path, a); err != nil {
			return fmt.Errorf("agent %s cannot run with fakes: %w", path, err)
		}
	}
	for _, o := range t.Orders {
		if err := s.order(o); err != nil {
			return fmt.Errorf("order %s cannot run with fakes: %w", o.Name, err)
		}
	}
	for _, i := range s.Plan.Items {
		if i.Agent != "" && !slices.ContainsFunc(paths, i.Of) {
			return fmt.Errorf("part %q of the plan is for an agent that the file does not have; it has %s", i,
				strings.Join(paths[:min(len(paths), maxListed)], ", "))
		}
	}
	return nil
}

// maxListed bounds the agents in an error.
const maxListed = 20

// agent changes an agent.
func (s *Sandbox) agent(path string, a *spec.Agent) error {
	if a.Program != nil {
		return nil
	}
	if a.User != "" {
		return fmt.Errorf("it runs as user %s, who cannot use the directory of the fakes", a.User)
	}
	if a.ReadWritePaths != nil { // the fakes keep their sessions there
		a.ReadWritePaths = append(slices.Clip(a.ReadWritePaths), s.Dir)
	}
	env := map[string]string{}
	for _, file := range a.EnvFiles {
		more, err := envfile.Read(file)
		if err != nil {
			continue // its start fails, as without fakes
		}
		maps.Copy(env, more)
	}
	maps.Copy(env, a.Env)
	changed, err := s.environ(env)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		a.Env = maps.Clone(a.Env)
		if a.Env == nil {
			a.Env = map[string]string{}
		}
		maps.Copy(a.Env, changed)
	}
	if a.Aide != nil {
		return s.aidefile(path, a)
	}
	if a.Pipeline != nil {
		if err := s.pipeline(path, a); err != nil {
			return err
		}
	}
	return s.command(path, &a.Command)
}

// pipeline makes a pipeline work in a copy of its repository, and call fakes in its stages. What is there for others
// than the repository does not run: release, such as a pull request, and archive, such as a message.
func (s *Sandbox) pipeline(path string, a *spec.Agent) error {
	own := *a.Pipeline
	own.Stages = slices.Clone(own.Stages)
	r, inside, err := s.repository(own.Repository)
	if err != nil {
		return err
	}
	own.Repository = inside
	s.note(fmt.Sprintf("%s works in a copy of %s as it was last committed: %s", path, r.real, r.dir))
	// The fakes keep their sessions in the directory of the sandbox. Without Landlock, a path that is named would keep
	// the stages from running.
	if own.Writable != nil || landlock.Supported() == nil {
		own.Writable = append(slices.Clip(own.Writable), s.Dir)
	}
	if own.PullRequest != nil {
		s.note(path + " makes no pull requests: it merges in the copy, or asks")
		own.PullRequest = nil
	}
	own.SetUp = slices.Clone(own.SetUp)
	if err := s.command(path, &own.SetUp); err != nil {
		return err
	}
	for i := range own.Stages {
		stage := &own.Stages[i]
		n := pipeline.Name(i)
		switch {
		case len(stage.Command) == 0:
		case n == pipeline.Release || n == pipeline.Archive:
			s.note(fmt.Sprintf("%s does not run its command of %s, which others could see", path, n))
			stage.Command = nil
		default:
			if err := s.command(path, &stage.Command); err != nil {
				return err
			}
		}
	}
	a.Pipeline = &own
	return nil
}

// aidefile changes an agent with an Aidefile. Runs of a fake must not close real issues.
func (s *Sandbox) aidefile(path string, a *spec.Agent) error {
	own := *a.Aide
	isIssue := func(t aidefile.Trigger) bool { return t.Kind == aidefile.Issue }
	if slices.ContainsFunc(own.File.Triggers, isIssue) {
		own.File.Triggers = slices.DeleteFunc(slices.Clone(own.File.Triggers), isIssue)
		if len(own.File.Triggers) == 0 {
			own.File.Triggers = []aidefile.Trigger{{Kind: aidefile.Manual}}
		}
		s.note(fmt.Sprintf("%s does not look for issues, so that no fake closes one", path))
	}
	a.Aide = &own
	return s.command(path, &own.Command)
}

// command changes the command of an agent.
func (s *Sandbox) command(path string, argv *[]string) error {
	changed, cli, err := s.Command(*argv)
	if err != nil {
		return err
	}
	*argv = changed
	if cli == agentcli.Plain {
		return nil
	}
	for _, i := range s.Plan.Items {
		if !i.Of(path) {
			continue
		}
		if err := fakeagent.Has(cli, i.Scenario); err != nil {
			return fmt.Errorf("part %q of the plan: %w; name the agents that it is for, as in AGENT:%s", i, err, i)
		}
	}
	return nil
}

// order changes an order.
func (s *Sandbox) order(o *spec.Order) error {
	changed, err := s.environ(o.Env)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		o.Env = maps.Clone(o.Env)
		maps.Copy(o.Env, changed)
	}
	o.Command, _, err = s.Command(o.Command)
	return err
}

// keys are variables that hold the keys of models.
const keys = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_API_KEY " +
	"GEMINI_API_KEY " +
	"GOOGLE_API_KEY COPILOT_GITHUB_TOKEN COPILOT_PROVIDER_API_KEY OPENROUTER_API_KEY SAGE_API_KEY " +
	"AWS_BEARER_TOKEN_BEDROCK"

// places are variables that hold the directories of command lines.
const places = "CLAUDE_CONFIG_DIR CODEX_HOME GEMINI_CLI_HOME COPILOT_HOME"

// environ returns the variables that differ with fakes. Different values stay different, so that accounts do.
func (s *Sandbox) environ(env map[string]string) (map[string]string, error) {
	changed := map[string]string{}
	for name, value := range env {
		switch {
		case name == "PATH":
			changed[name] = s.path(value)
		case name == "HOME":
			home, err := s.home(value)
			if err != nil {
				return nil, err
			}
			changed[name] = home
		case isOne(name, places):
			changed[name] = filepath.Join(s.Dir, "homes", standIn(name+value))
		case isOne(name, keys) && value != "" && value != "mock":
			changed[name] = "fake-" + standIn(value)
		}
	}
	return changed, nil
}
