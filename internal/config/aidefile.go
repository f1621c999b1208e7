package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/ondisk"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/spec"
)

func aideTable() toml.Table[aidefile.Settings] {
	return toml.Table[aidefile.Settings]{
		Header: "[aide]",
		Doc:    "How the agents of Aidefiles run, see [Aidefiles](aidefile.md).",
		Example: `[aide]
command = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--append-system-prompt", "{style}"]
vault = "secrets"

[[agent]]
aidefile = "agents/uptime"
`,
		Keys: []toml.Key[aidefile.Settings]{
			{Name: "command", Type: "string or array of strings",
				Default: "`claude -p --output-format stream-json --verbose`",
				Doc: "what a run calls, written as the `command` of an agent. It runs in the directory of the " +
					"Aidefile, which a relative path such as `./run.sh` refers to. Its standard input is the " +
					"complete task; it succeeds if it exits with 0. In its arguments " +
					"`{task}`, `{prompt}`, `{persona}`, `{style}`, `{dir}`, `{memory}`, `{workspace}`, " +
					"`{skills}` and `{tokens}` are replaced; environment variables hold the same. If an argument " +
					"could become an option by that, put a `--` right before it",
				Also: []string{"cmd", "runner", "exec"}, Read: readTemplate},
			setting.CLI(agentcli.Callable(), "found out from `command`",
				"the command line of a language model whose output that of `command` is, for a script that calls one; "+
					"`plain` for none; `acp` if `command` speaks the [Agent Client Protocol](acp.md). Without "+
					"`command`, a run calls it as is usual: `codex` stands for `codex exec --json -`. An Aidefile "+
					"may have a `cli` of its own",
				func(s *aidefile.Settings) *agentcli.CLI { return &s.CLI }),
			{Name: "usage", Type: "auto, json, file, none", Default: "auto", Doc: "where the command reports how " +
				"many tokens it has used: `json` is its output, as claude, codex, gemini and opencode print it, " +
				"or objects with a `usage`; `file` is the file that `COPPICE_USAGE` names; `auto` is that file " +
				"if it was written, otherwise the output", Also: []string{"tokens"},
				Read: toml.OneOf([]string{"auto", "json", "file", "none"},
					func(s *aidefile.Settings, i int) { s.Usage = aidefile.Source(i) })},
			{Name: "poll_interval", Type: "duration", Default: "1m",
				Doc:  "the time between two checks of an agent's issues; after errors it grows to half an hour",
				Also: []string{"interval", "poll"},
				Read: toml.Duration(func(s *aidefile.Settings) *time.Duration { return &s.PollInterval })},
			{Name: "backoff_base", Type: "duration", Default: "1s", Doc: "the unit of the delays before restarts " +
				"and between the tries of a run; each delay, like this value, is at most 5m",
				Also: []string{"base", "backoff"},
				Read: func(r *toml.Reader, v *toml.Value, into *aidefile.Settings) {
					if d, ok := r.Duration(v); ok && d > aidefile.MaxSleep {
						r.Fail(v, "", "%s is %s, expected at most %v", r.Label(v), spec.Quote(v.Text),
							aidefile.MaxSleep)
					} else if ok {
						into.Base = d
					}
				}},
			{Name: "vault", Type: "string", Default: `"vault"`, Doc: "the directory of secrets, relative to this " +
				"file: one file for each secret, called by its name and readable by you alone",
				Also: []string{"secrets"},
				Read: toml.Text(func(s *aidefile.Settings) *string { return &s.Vault })},
		},
	}
}

// placeholder matches a placeholder in a command template.
var placeholder = lazyregexp.New(`\{(task|prompt|persona|style|dir|memory|workspace|skills|tokens)\}`)

// readTemplate reads a command with placeholders. The text of a task may come from
// strangers, so a shell must never interpret it.
func readTemplate(r *toml.Reader, v *toml.Value, into *aidefile.Settings) {
	const hint = `the same is in variables such as "$COPPICE_TASK" and on standard input`
	if v.Kind != toml.KindString || !placeholder().MatchString(v.Text) {
		if argv, ok := setting.ReadCommand(r, v); ok {
			into.Command = checkPlaceholders(r, v, argv, hint)
		}
	} else if setting.IsPlain(placeholder().ReplaceAllString(v.Text, "x")) {
		into.Command = checkPlaceholders(r, v, strings.Fields(v.Text), hint)
	} else {
		r.Fail(v, hint, "%s has a placeholder and needs a shell, expected plain words or an array", r.Label(v))
	}
}

// checkPlaceholders returns a command. It reports a placeholder that would be run as a script.
func checkPlaceholders(r *toml.Reader, v *toml.Value, argv []string, hint string) []string {
	if i := scriptOf(argv); placeholder().MatchString(argv[i]) {
		at := v
		if v.Kind == toml.KindArray {
			at = v.Elements[i]
		}
		r.Fail(at, hint, "a placeholder in a script of %s, expected it in an argument after that",
			filepath.Base(argv[slices.IndexFunc(argv, isInterpreter)]))
	}
	return argv
}

var (
	// interpreter matches the names of programs that run an argument as a program.
	interpreter = lazyregexp.New(
		`^(ba|da|z|k|mk|fi|a|c|tc|pw)?sh$|^(su|runuser|busybox|python[0-9.]*|perl|ruby|node|bun|lua|php)$`)
	// evaluates matches the option that precedes or contains that argument.
	evaluates = lazyregexp.New(`^-[A-Za-z]*[cer]$|^--?(eval|command|print|run|Command)(=|$)`)
)

func isInterpreter(word string) bool { return interpreter().MatchString(filepath.Base(word)) }

// scriptOf returns the index of the argument that an interpreter runs as a program; 0 if
// there is none. The interpreter may follow a wrapper such as env or timeout.
func scriptOf(argv []string) int {
	begin := slices.IndexFunc(argv, isInterpreter)
	if begin < 0 {
		return 0
	}
	for i := begin + 1; i < len(argv); i++ {
		switch {
		case !evaluates().MatchString(argv[i]):
		case strings.Contains(argv[i], "="):
			return i
		case i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-"): // otherwise it was another option
			return i + 1
		}
	}
	return 0
}

// replacedKeys returns the keys that an agent with an Aidefile cannot have, each with a hint.
func replacedKeys() map[string]string {
	policy, is := "set it in the table [daemon] of the Aidefile", "remove it: an agent of an Aidefile has none"
	return map[string]string{
		"command": "set the command in the table [aide] of this file",
		"cli":     "set it in the Aidefile, before its tables, or in the table [aide] of this file",
		"dir":     "remove it: the agent runs in the directory of its Aidefile",
		"restart": policy, "backoff": policy, "max_restarts": policy, "restart_window": policy, "on_limit": policy,
		"depends_on": "remove it: a trigger starts it, whatever else runs",
		"ready":      is, "pool": is, "terminal": is, "stdin": is, "notify": is, "watchdog": is, "user": is,
		"group": is, "read_write_paths": is, "read_only_paths": is,
	}
}

// readAidefileKey reads the key aidefile of an agent.
func readAidefileKey(r *toml.Reader, v *toml.Value, into *agent) {
	path, ok := r.Text(v, "the path of an Aidefile, or of its directory")
	if !ok {
		return
	}
	into.aidefile = v
	into.Aide = &aidefile.Agent{Path: path, File: aidefile.Default()}
	for name, hint := range replacedKeys() {
		if field := v.Parent.Field(name); field != nil {
			r.FailKey(field, hint, "%s and aidefile, expected one of the two", name)
		}
	}
	if k := v.Parent.Field("runtime"); k != nil && k.Kind == toml.KindString && k.Text != spec.Proc.String() {
		r.Fail(k, "remove it", "runtime is %s with aidefile, expected proc", spec.Quote(k.Text))
	}
}

// aidefiles completes the agents that have an Aidefile. It reads the Aidefiles if g has a
// directory.
func (f *file) aidefiles(r *toml.Reader, dir string, g *fileset.Set) {
	settings := aidefile.DefaultSettings(dir)
	if f.aide != nil {
		settings = *f.aide
		settings.Vault = toml.Absolute(dir, settings.Vault)
	}
	for _, a := range f.agents {
		if a.Aide == nil {
			continue
		}
		path := toml.Absolute(dir, a.Aide.Path)
		if g.Dir != "" {
			path = a.readAidefile(r, path, g)
		} else if filepath.Base(path) != aidefile.FileName {
			path = filepath.Join(path, aidefile.FileName)
		}
		a.Aide.Path, a.Aide.Settings = path, settings.For(a.Aide.File.CLI)
		a.Dir = filepath.Dir(path)
		a.Name = cmp.Or(a.Name, a.Aide.File.Persona.Name, setting.ProjectName(a.Dir))
		a.Restart, a.Backoff, a.Limit = a.Aide.File.Policy.Child(settings.Base)
		a.pool, a.limit = nil, setting.Limit{}
	}
}

// readAidefile reads the Aidefile of an agent and returns the path of the file. The given
// path may be that of its directory.
func (a *agent) readAidefile(r *toml.Reader, path string, g *fileset.Set) string {
	v := a.aidefile
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint := ""
		if strings.Contains(path, "/~") {
			hint = "write the whole path: ~ is not expanded"
		}
		g.Note(path, nil)
		r.Fail(v, hint, "%s does not exist, expected an Aidefile or its directory", spec.Quote(v.Text))
		return path
	case err != nil:
		r.Fail(v, "", "%s cannot be used: %v", spec.Quote(v.Text), toml.Reason(err))
		return path
	case info.IsDir():
		path = filepath.Join(path, aidefile.FileName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			g.Note(path, nil)
			r.Fail(v, "write one there, it may be empty", "the directory %s has no %s, expected one",
				spec.Quote(v.Text), aidefile.FileName)
			return path
		}
	}
	shown := path
	if short, err := filepath.Rel(g.Dir, path); err == nil && filepath.IsLocal(short) {
		shown = filepath.Join(g.Shown, short) // like the paths in errors of coppice.toml
	}
	data, _, e := toml.ReadFile(path, aidefileconfig.Advice)
	g.Note(path, data)
	if e != nil {
		e.File = shown
		r.AddLast(v, toml.Errors{e})
		return path
	}
	f, err := aidefileconfig.Read(shown, filepath.Dir(path), data, true)
	if bad, ok := errors.AsType[toml.Errors](err); ok {
		r.AddLast(v, bad)
		return path
	}
	a.Aide.File = *f
	return path
}

// loadAidefile loads an Aidefile that is a project of its own.
func loadAidefile(g *fileset.Set, path, absolute string) (*Loaded, error) {
	l := &Loaded{}
	data, _, e := toml.ReadFile(path, aidefileconfig.Advice)
	g.Note(absolute, data)
	if e != nil {
		return l, toml.Errors{e}
	}
	f, err := aidefileconfig.Read(path, g.Dir, data, true)
	if err != nil {
		return l, err
	}
	if _, document, err := toml.Open(path, data, aidefileconfig.Advice, aidefileconfig.Sections()); err == nil {
		l.document = document
	}
	a := &spec.Agent{Name: f.Persona.Name, Dir: g.Dir,
		Aide: &aidefile.Agent{Path: absolute, File: *f, Settings: aidefile.DefaultSettings(g.Dir).For(f.CLI)}}
	a.Restart, a.Backoff, a.Limit = f.Policy.Child(0)
	root := spec.Node{Name: setting.ProjectName(g.Dir)}
	if root.Name == a.Name {
		root.Name = "root"
	}
	decls := []spec.Decl{{Agent: a}}
	tree, problems := spec.Assemble(root, decls)
	if problems = append(problems, ondisk.Check(decls)...); len(problems) > 0 {
		var errs toml.Errors
		for _, p := range problems {
			errs = append(errs, &toml.Error{File: path, Line: 1, Column: 1, Message: p.Message, Hint: p.Hint})
		}
		return l, errs
	}
	tree.Patrol = spec.DefaultPatrol()
	l.Tree = tree
	return l, nil
}

// isAidefile reports whether the file of a project is an Aidefile.
func isAidefile(path string) bool { return filepath.Base(path) == aidefile.FileName }
