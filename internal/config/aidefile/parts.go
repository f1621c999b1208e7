package aidefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func hooksTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[hooks]",
		Doc: "Hooks run before and after the command, in the order of their lists. Each is a script next to the " +
			"Aidefile, which `sh` runs with the environment of the command, or `commit-memory`, which commits " +
			"the directory `memory` to the git repository it is in. (`inject-vault` does nothing: secrets are " +
			"always available.) If a hook fails, so does the run.",
		Example: "[hooks]\non_spawn = [\"fetch.sh\"]\non_complete = [\"commit-memory\", \"publish.sh\"]\n",
		Keys: []toml.Key[form]{
			hooksKey("on_spawn", "before the command is called",
				func(f *form) *[]string { return &f.Hooks.OnSpawn }, "pre", "before", "on_start"),
			hooksKey("on_complete", "after the run, whatever its result: `COPPICE_RESULT` is `success`, "+
				"`failure`, `timeout`, `budget` or `faulty`",
				func(f *form) *[]string { return &f.Hooks.OnComplete }, "post", "after", "on_exit", "on_stop"),
		},
	}
}

func hooksKey(name, doc string, field func(*form) *[]string, also ...string) toml.Key[form] {
	return toml.Key[form]{Name: name, Type: "array of strings", Doc: doc, Also: also,
		Read: func(r *toml.Reader, v *toml.Value, into *form) {
			hooks, ok := r.List(v, "an array of hooks")
			if !ok {
				return
			}
			for i, hook := range hooks {
				if fault, hint := into.hookFault(hook); fault != "" {
					r.Fail(v.Elements[i], hint, "the hook %s %s", spec.Quote(hook), fault)
				}
			}
			*field(into) = hooks
		}}
}

// hookFault returns the fault of a hook and a hint, or "".
func (f *form) hookFault(hook string) (fault, hint string) {
	switch {
	case aidefile.BuiltIn(hook):
		return "", ""
	case hook == "" || strings.ContainsRune(hook, 0) || filepath.IsAbs(hook) || !filepath.IsLocal(hook):
		return "is not a file next to the Aidefile, expected one, inject-vault or commit-memory", ""
	case !f.onDisk:
		return "", ""
	}
	info, err := os.Stat(filepath.Join(f.dir, hook))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fault, hint = "does not exist, expected a script next to the Aidefile, inject-vault or commit-memory",
			spec.DidYouMean(hook, aidefile.InjectVault, aidefile.CommitMemory)
	case err != nil:
		fault = "cannot be used: " + toml.Reason(err).Error()
	case !info.Mode().IsRegular():
		fault = "is a " + toml.FileType(info.Mode()) + ", expected a script"
	}
	return fault, hint
}

func skillsTable() toml.Table[form] {
	return toml.Table[form]{
		Header:  "[skills]",
		Doc:     "What the agent knows how to do.",
		Example: "[skills]\ninclude = [\"skills/http.md\", \"incident-review\"]\n",
		Keys: []toml.Key[form]{
			wordList("include", "names, or files relative to the Aidefile, whose text the agent is given",
				func(f *form) *[]string { return &f.Skills }, "skills", "files", "list"),
		},
	}
}

// wordList returns the key of an array of non-empty strings.
func wordList(name, doc string, field func(*form) *[]string, also ...string) toml.Key[form] {
	return toml.Key[form]{Name: name, Type: "array of strings", Doc: doc, Also: also,
		Read: func(r *toml.Reader, v *toml.Value, into *form) {
			list, ok := r.List(v, "an array of strings")
			for i, word := range list {
				if ok && (strings.TrimSpace(word) == "" || strings.ContainsRune(word, 0)) {
					r.Fail(v.Elements[i], "", "an element of %s is %s, expected a name or a path",
						name, spec.Quote(word))
				}
			}
			*field(into) = list
		}}
}

func vaultTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[vault]",
		Doc: "The secrets of the agent. Each is a variable in the environment of the command and its hooks. Its " +
			"value is that of the daemon's environment or else the content of the file of that name in the " +
			"directory of secrets (`[aide] vault` in coppice.toml). Values are removed from everything that is " +
			"logged. If one of the secrets is missing, a run fails.",
		Example: "[vault]\nkeys = [\"ANTHROPIC_API_KEY\"]\n",
		Keys: []toml.Key[form]{
			{Name: "keys", Type: "array of strings", Doc: "their names, which are names of variables",
				Also: []string{"key", "secrets", "names"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					keys, ok := r.List(v, "an array of names")
					for i, name := range keys {
						e := v.Elements[min(i, len(v.Elements)-1)]
						switch {
						case !ok:
						case !isVariable(name):
							r.Fail(e, "", "%s cannot name a secret, expected a name of a "+
								"variable such as \"API_KEY\"", spec.Quote(name))
						case strings.HasPrefix(name, "COPPICE_"):
							r.Fail(e, "", "the variable %s is set by Coppice itself, expected another name",
								spec.Quote(name))
						}
					}
					into.Vault = keys
				}},
		},
	}
}

func outputTable() toml.Table[aidefile.Output] {
	return toml.Table[aidefile.Output]{
		Header: "[output]",
		Doc: "What is kept of the agent's output: a summary, which is the last text between `<aide-summary>` and " +
			"`</aide-summary>`, or the end of the output.",
		Example: "[output]\nmax_summary_tokens = 300\nnarrative_schema = \"WHAT, WHY, NEXT\"\n",
		Keys: []toml.Key[aidefile.Output]{
			{Name: "max_summary_tokens", Type: "integer", Default: "500",
				Doc:  "how long the summary may be, in tokens of 4 bytes; it is cut off there",
				Also: []string{"max_tokens", "summary_tokens"},
				Read: toml.Int(0, 1_000_000, func(o *aidefile.Output) *int64 { return &o.MaxSummaryTokens })},
			{Name: "narrative_schema", Type: "string", Doc: "what the summary is to contain, in words of your own",
				Also: []string{"schema", "template"},
				Read: toml.Text(func(o *aidefile.Output) *string { return &o.NarrativeSchema })},
		},
	}
}

func workspaceTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[workspace]",
		Doc: "Where the agent may read outside its own directory. The agent is told so; nothing prevents it from " +
			"reading elsewhere.",
		Example: "[workspace]\nread = [\"~/projects/shop\", \"../shared\"]\n",
		Keys: []toml.Key[form]{
			wordList("read", "directories, relative to the Aidefile; `~` is your home",
				func(f *form) *[]string { return &f.Workspace.Read }, "paths", "dirs", "include"),
		},
	}
}

// kindsType is the type of a list of kinds of tools.
const kindsType = "array of kinds"

func acpTable() toml.Table[form] {
	return toml.Table[form]{
		Header: "[acp]",
		Doc: "What an agent may do that speaks the [Agent Client Protocol](acp.md). It has no effect on other " +
			"command lines, which have settings of their own.",
		Example: "[acp]\nallow = [\"read\", \"search\", \"think\", \"fetch\", \"edit\", \"execute\"]\n",
		Keys: []toml.Key[form]{
			{Name: "allow", Type: kindsType,
				Default: "`[\"" + strings.Join(aidefile.DefaultAllow(), "\", \"") + "\"]`",
				Doc: "the kinds of tools that it may use when it asks for permission: " +
					strings.Join(aidefile.ToolKinds(), ", ") + ". All other requests are refused. What its own " +
					"settings allow it does not ask for. The tools of [`coppice mcp`](mcp.md) are always allowed",
				Also: []string{"allowed", "kinds", "tools"},
				Read: func(r *toml.Reader, v *toml.Value, into *form) {
					kinds, ok := r.List(v, "an array of kinds of tools")
					for i, kind := range kinds {
						if known := aidefile.ToolKinds(); ok && !slices.Contains(known, kind) {
							r.Fail(v.Elements[i], spec.DidYouMean(kind, known...), "an element of %s is %s, "+
								"expected one of %s", r.Label(v), spec.Quote(kind), strings.Join(known, ", "))
						}
					}
					into.Allow = kinds
				}},
		},
	}
}
