package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/supervisor"
)

// LoadAidefile reads the Aidefile at path and checks, beyond what
// ParseAidefile does, that its hooks exist. An error about the file is Errors;
// one that it does not exist wraps fs.ErrNotExist.
func LoadAidefile(path string) (*aidefile.File, error) {
	data, dir, err := read(path, aideAdvice)
	if err != nil {
		return nil, err
	}
	return loadAidefile(path, dir, data, true)
}

// ParseAidefile reads data, the content of the Aidefile called name, without
// touching the file system. The error is Errors.
func ParseAidefile(name string, data []byte) (*aidefile.File, error) {
	return loadAidefile(name, filepath.Dir(name), data, false)
}

// aideAdvice is the advice for an Aidefile.
var aideAdvice = advice{missing: "write one, it may be empty", large: "put texts into files beside it",
	page: "docs/aidefile-reference.md"}

// aidefileForm is an Aidefile while it is read.
type aidefileForm struct {
	aidefile.File
	dir  string
	look bool // at the files that it names
}

func loadAidefile(name, dir string, data []byte, look bool) (*aidefile.File, error) {
	r, document, err := open(name, data, aideAdvice, aidefileSections())
	if err != nil {
		return nil, err
	}
	f := aidefileForm{File: aidefile.Default(), dir: dir, look: look}
	aidefileTable().read(r, document, &f)
	if len(r.errs) > 0 {
		return nil, r.errors()
	}
	f.Persona.Name = cmp.Or(f.Persona.Name, projectName(dir))
	f.Label = cmp.Or(f.Label, f.Persona.Name)
	return &f.File, nil
}

func aidefileTable() table[aidefileForm] {
	itself := func(f *aidefileForm) *aidefileForm { return f }
	return table[aidefileForm]{
		doc: "The whole file. All of it is optional: an empty file is an agent that runs when a person starts it, " +
			"once.",
		keys: []key[aidefileForm]{
			{row{name: "persona", typ: "table", doc: "who the agent is", also: []string{"agent", "identity"}},
				sub(personaTable(), func(f *aidefileForm) *aidefile.Persona { return &f.Persona })},
			{row{name: "budget", typ: "table", doc: "what one run may use", also: []string{"limits"}},
				sub(budgetTable(), func(f *aidefileForm) *aidefile.Budget { return &f.Budget })},
			{row{name: "memory", typ: "table", doc: "what it keeps from run to run"},
				sub(memoryTable(), func(f *aidefileForm) *aidefile.Memory { return &f.Memory })},
			{row{name: "hooks", typ: "table", doc: "what runs before and after a run", also: []string{"hook"}},
				sub(aideHooksTable(), itself)},
			{row{name: "skills", typ: "table", doc: "what it knows how to do", also: []string{"skill", "tools"}},
				sub(skillsTable(), itself)},
			{row{name: "trigger", typ: "table", doc: "what starts a run", also: []string{"triggers", "on"}},
				sub(triggerTable(), itself)},
			{row{name: "vault", typ: "table", doc: "its secrets", also: []string{"secrets", "env"}},
				sub(vaultTable(), itself)},
			{row{name: "output", typ: "table", doc: "what is kept of what it says", also: []string{"summary"}},
				sub(outputTable(), func(f *aidefileForm) *aidefile.Output { return &f.Output })},
			{row{name: "workspace", typ: "table", doc: "where it may look"}, sub(workspaceTable(), itself)},
			{row{name: "daemon", typ: "table",
				doc:  "when a run is followed by another one; without this table, never",
				also: []string{"supervision", "supervisor", "restart"}},
				func(r *reader, v *value, f *aidefileForm) {
					f.Policy = aidefile.Kept()
					policyTable().read(r, v, &f.Policy)
				}},
		},
	}
}

func personaTable() table[aidefile.Persona] {
	return table[aidefile.Persona]{
		header:  "[persona]",
		doc:     "Who the agent is.",
		example: "[persona]\nname = \"uptime-monitor\"\nstyle = \"brief, and sure of its facts\"\n",
		keys: []key[aidefile.Persona]{
			{row{name: "name", typ: "string", def: "the name of the directory",
				doc: "its name, in the tree and to itself; a segment of paths", also: []string{"id"}},
				func(r *reader, v *value, into *aidefile.Persona) {
					name, ok := r.text(v, "a string")
					if !ok {
						return
					}
					if fault := spec.CheckName(name); fault != "" {
						r.fail(v.at, v, "", "%s", fault)
						return
					}
					into.Name = name
				}},
			{row{name: "style", typ: "string", doc: "how it works and speaks, in words of your own",
				also: []string{"tone", "description", "role"}},
				text(func(p *aidefile.Persona) *string { return &p.Style })},
		},
	}
}

func budgetTable() table[aidefile.Budget] {
	return table[aidefile.Budget]{
		header: "[budget]",
		doc: "What one run may use, and a chain of them. A run that uses it up has failed; the next one " +
			"has a budget of its own.",
		example: "[budget]\ntokens = \"200k\"\nchain_tokens = \"1m\"\ntimeout = \"10m\"\nmax_retries = 1\n",
		keys: []key[aidefile.Budget]{
			{row{name: "tokens", typ: tokensType, def: `"200k"`, doc: "tokens of input and output together, with " +
				"`k` for thousands and `m` for millions. What the command reports counts; once they are used " +
				"up it is not called again", also: []string{"token", "max_tokens"}},
				tokens(func(b *aidefile.Budget) *int64 { return &b.Tokens })},
			{row{name: "chain_tokens", typ: tokensType, doc: "tokens of all runs of a chain together: of one that " +
				"a trigger has begun, and of those that follow it until one succeeds. Once they are used up the " +
				"agent is given up. Without it each of `max_restarts` + 1 runs may use `tokens`",
				also: []string{"total_tokens", "max_total_tokens", "chain"}},
				func(r *reader, v *value, into *aidefile.Budget) {
					if tokens(func(b *aidefile.Budget) *int64 { return &b.Chain })(r, v, into); into.Chain == 0 &&
						!r.isFaulty(v) {
						r.fail(v.at, v, "without it there is no bound", "%s is 0, expected at least 1", r.label(v))
					}
				}},
			{row{name: "timeout", typ: secondsType, doc: "how long the run may take, with all its tries; seconds " +
				"may be without a unit (`\"120\"`). Then the command is stopped, with all that it has started",
				also: []string{"max_duration", "time"}},
				func(r *reader, v *value, into *aidefile.Budget) {
					if v.kind == isString && v.text != "" && strings.Trim(v.text, "0123456789") == "" {
						seconds := *v
						seconds.text += "s"
						v = &seconds
					}
					duration(func(b *aidefile.Budget) *time.Duration { return &b.Timeout })(r, v, into)
				}},
			{row{name: "max_retries", typ: "integer", def: "3",
				doc:  "how often the command is called again in the same run after it has failed; 0 for never",
				also: []string{"retries", "max_attempts"}},
				func(r *reader, v *value, into *aidefile.Budget) {
					if n, ok := r.integer(v, 0, aidefile.MaxRestarts,
						fmt.Sprintf("an integer from 0 to %d", aidefile.MaxRestarts)); ok {
						into.MaxRetries = int(n)
					}
				}},
		},
	}
}

// Types of values that only Aidefiles have.
const (
	secondsType = "duration or seconds"
	tokensType  = "string or integer"
)

// tokens is the read function of a key whose value is a number of tokens.
func tokens[T any](field func(*T) *int64) func(*reader, *value, *T) {
	const expected = `a number of tokens such as "200k", "1m" or "500000"`
	return func(r *reader, v *value, into *T) {
		if v.kind == isInteger {
			if n, ok := r.integer(v, 0, 1<<62, expected); ok {
				*field(into) = n
			}
			return
		}
		if !r.want(v, isString, expected) {
			return
		}
		n, err := aidefile.ParseTokens(v.text)
		if err != nil {
			r.fail(v.at, v, "k stands for thousands, m for millions", "%s is %s, expected %s", r.label(v),
				spec.Quote(v.text), expected)
			return
		}
		*field(into) = n
	}
}

func memoryTable() table[aidefile.Memory] {
	return table[aidefile.Memory]{
		header:  "[memory]",
		doc:     "What the agent keeps from run to run: the files in the directory `memory` beside the Aidefile.",
		example: "[memory]\ncompact_after = \"50k\"\n",
		keys: []key[aidefile.Memory]{
			{row{name: "compact_after", typ: tokensType, def: `"200k"`,
				doc:  "how many tokens (of 4 bytes) these files may have before the agent is told to make them smaller",
				also: []string{"compact", "max_tokens", "limit"}},
				tokens(func(m *aidefile.Memory) *int64 { return &m.CompactAfter })},
		},
	}
}

func aideHooksTable() table[aidefileForm] {
	return table[aidefileForm]{
		header: "[hooks]",
		doc: "What runs beside a run, in this order: scripts beside the Aidefile, which `sh` runs with the " +
			"environment of the command, or `commit-memory`, which commits the directory `memory` to the " +
			"git repository it is in. " +
			"(`inject-vault` does nothing: secrets are there in any case.) A hook that fails fails the run.",
		example: "[hooks]\non_spawn = [\"fetch.sh\"]\non_complete = [\"commit-memory\", \"publish.sh\"]\n",
		keys: []key[aidefileForm]{
			aideHooks("on_spawn", "before the command is called",
				func(f *aidefileForm) *[]string { return &f.Hooks.OnSpawn }, "pre", "before", "on_start"),
			aideHooks("on_complete", "after the run, however it ended: `COPPICE_RESULT` is `success`, `failure`, "+
				"`timeout`, `budget` or `faulty`",
				func(f *aidefileForm) *[]string { return &f.Hooks.OnComplete }, "post", "after", "on_exit", "on_stop"),
		},
	}
}

func aideHooks(name, doc string, field func(*aidefileForm) *[]string, also ...string) key[aidefileForm] {
	return key[aidefileForm]{row{name: name, typ: "array of strings", doc: doc, also: also},
		func(r *reader, v *value, into *aidefileForm) {
			hooks, ok := r.list(v, "an array of hooks")
			if !ok {
				return
			}
			for i, hook := range hooks {
				if fault, hint := into.hookFault(hook); fault != "" {
					r.fail(v.elements[i].at, v.elements[i], hint, "the hook %s %s", spec.Quote(hook), fault)
				}
			}
			*field(into) = hooks
		}}
}

// hookFault says what is wrong with a hook, or "".
func (f *aidefileForm) hookFault(hook string) (fault, hint string) {
	switch {
	case aidefile.BuiltIn(hook):
		return "", ""
	case hook == "" || strings.ContainsRune(hook, 0) || filepath.IsAbs(hook) || !filepath.IsLocal(hook):
		return "is no file beside the Aidefile, expected one, inject-vault or commit-memory", ""
	case !f.look:
		return "", ""
	}
	info, err := os.Stat(filepath.Join(f.dir, hook))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fault, hint = "does not exist, expected a script beside the Aidefile, inject-vault or commit-memory",
			didYouMean(suggest.Nearest(hook, []string{aidefile.InjectVault, aidefile.CommitMemory}))
	case err != nil:
		fault = "cannot be used: " + reason(err).Error()
	case !info.Mode().IsRegular():
		fault = "is a " + fileType(info.Mode()) + ", expected a script"
	}
	return fault, hint
}

func skillsTable() table[aidefileForm] {
	return table[aidefileForm]{
		header:  "[skills]",
		doc:     "What the agent knows how to do.",
		example: "[skills]\ninclude = [\"skills/http.md\", \"incident-review\"]\n",
		keys: []key[aidefileForm]{
			wordList("include", "names, or files relative to the Aidefile, whose text the agent is given",
				func(f *aidefileForm) *[]string { return &f.Skills }, "skills", "files", "list"),
		},
	}
}

// wordList is the key of an array of strings that are not empty.
func wordList(name, doc string, field func(*aidefileForm) *[]string, also ...string) key[aidefileForm] {
	return key[aidefileForm]{row{name: name, typ: "array of strings", doc: doc, also: also},
		func(r *reader, v *value, into *aidefileForm) {
			list, ok := r.list(v, "an array of strings")
			for i, word := range list {
				if ok && (strings.TrimSpace(word) == "" || strings.ContainsRune(word, 0)) {
					r.fail(v.elements[i].at, v.elements[i], "", "an element of %s is %s, expected a name or a path",
						name, spec.Quote(word))
				}
			}
			*field(into) = list
		}}
}

func vaultTable() table[aidefileForm] {
	return table[aidefileForm]{
		header: "[vault]",
		doc: "Its secrets. Each is a variable of the environment of the command and its hooks, with the value " +
			"that it has in the environment of the daemon or else the file of that name in the directory of " +
			"secrets (`[aide] vault` in coppice.toml). Their values are taken out of all that is logged. Without " +
			"one of them a run fails.",
		example: "[vault]\nkeys = [\"ANTHROPIC_API_KEY\"]\n",
		keys: []key[aidefileForm]{
			{row{name: "keys", typ: "array of strings", doc: "their names, which are names of variables",
				also: []string{"key", "secrets", "names"}},
				func(r *reader, v *value, into *aidefileForm) {
					keys, ok := r.list(v, "an array of names")
					for i, name := range keys {
						e := v.elements[min(i, len(v.elements)-1)]
						switch {
						case !ok:
						case !variable.MatchString(name):
							r.fail(e.at, e, "", "%s cannot name a secret, expected a name of a "+
								"variable such as \"API_KEY\"", spec.Quote(name))
						case strings.HasPrefix(name, "COPPICE_"):
							r.fail(e.at, e, "", "the variable %s is set by Coppice itself, expected another name",
								spec.Quote(name))
						}
					}
					into.Vault = keys
				}},
		},
	}
}

func outputTable() table[aidefile.Output] {
	return table[aidefile.Output]{
		header: "[output]",
		doc: "What is kept of what the agent says: a summary, which is what it writes last between " +
			"`<aide-summary>` and `</aide-summary>`, or the end of its output.",
		example: "[output]\nmax_summary_tokens = 300\nnarrative_schema = \"WHAT, WHY, NEXT\"\n",
		keys: []key[aidefile.Output]{
			{row{name: "max_summary_tokens", typ: "integer", def: "500",
				doc:  "how long the summary may be, in tokens of 4 bytes; it is cut there",
				also: []string{"max_tokens", "summary_tokens"}},
				func(r *reader, v *value, into *aidefile.Output) {
					if n, ok := r.integer(v, 0, 1_000_000, "an integer from 0 to 1000000"); ok {
						into.MaxSummaryTokens = n
					}
				}},
			{row{name: "narrative_schema", typ: "string", doc: "what the summary is to contain, in words of your own",
				also: []string{"schema", "template"}},
				text(func(o *aidefile.Output) *string { return &o.NarrativeSchema })},
		},
	}
}

func workspaceTable() table[aidefileForm] {
	return table[aidefileForm]{
		header: "[workspace]",
		doc: "Where the agent may look beside its own directory. It is told so; nothing keeps " +
			"it from looking elsewhere.",
		example: "[workspace]\nread = [\"~/projects/shop\", \"../shared\"]\n",
		keys: []key[aidefileForm]{
			wordList("read", "directories, relative to the Aidefile; `~` is your home",
				func(f *aidefileForm) *[]string { return &f.Workspace.Read }, "paths", "dirs", "include"),
		},
	}
}

func policyTable() table[aidefile.Policy] {
	return table[aidefile.Policy]{
		header:  "[daemon]",
		doc:     "When a run is followed by another one without a trigger. Without this table: never.",
		example: "[daemon]\nrestart = \"always\"\nmax_restarts = 100\nbackoff = \"exponential\"\n",
		keys: []key[aidefile.Policy]{
			{row{name: "restart", typ: "always, on-failure, never", def: "on-failure",
				doc: "after every run; after one that has failed; not at all", also: []string{"policy", "mode"}},
				word(supervisor.ParseRestart, func(p *aidefile.Policy) *supervisor.Restart { return &p.Restart },
					restartMeant)},
			{row{name: "max_restarts", typ: "integer", def: "10", doc: "how many restarts may follow each other " +
				"before the agent is given up; a success begins the count anew. A restart after " +
				"a success does not count", also: []string{"max_restart", "restarts", "max_retries"}},
				func(r *reader, v *value, into *aidefile.Policy) {
					if n, ok := r.integer(v, 0, aidefile.MaxRestarts,
						fmt.Sprintf("an integer from 0 to %d", aidefile.MaxRestarts)); ok {
						into.MaxRestarts = int(n)
					}
				}},
			{row{name: "backoff", typ: "exponential, linear, fixed", def: "exponential",
				doc:  "the sleep before a restart, in seconds: 1, 2, 4, 8 and so on; 1, 2, 3; always 1. At most 300",
				also: []string{"delay", "strategy"}},
				oneOf([]string{"exponential", "linear", "fixed"}, func(p *aidefile.Policy, i int) {
					p.Backoff = []supervisor.BackoffKind{supervisor.Exponential, supervisor.Linear, supervisor.Fixed}[i]
				})},
		},
	}
}

// aidefileSections are all tables of an Aidefile, in the order of its reference page.
func aidefileSections() []section {
	return []section{
		aidefileTable().section(), personaTable().section(), triggerTable().section(), policyTable().section(),
		budgetTable().section(), memoryTable().section(),
		aideHooksTable().section(), skillsTable().section(), vaultTable().section(), outputTable().section(),
		workspaceTable().section(),
	}
}

// WriteAidefileReference writes the tables of an Aidefile, in Markdown.
func WriteAidefileReference(w io.Writer) error { return writePage(w, aidefileHead, aidefileSections()) }

const aidefileHead = `# The tables of an Aidefile

<!-- Written by go generate from internal/config; changes belong there. -->

What agents of Aidefiles are, how they run and how a project has them: [Aidefiles](aidefile.md). This page is the file itself: [TOML](https://toml.io),
called ` + "`Aidefile`" + `, UTF-8 and at most 1 MiB large. What is not known is an error, in every table:

` + "```" + `
agents/uptime/Aidefile:6:1: unknown key "max_restart" in [daemon]; did you mean "max_restarts"?
agents/uptime/Aidefile:7:11: restart is "on_failure", expected one of always, on-failure, never; did you mean "on-failure"?
` + "```" + `

A **duration** is a string with units: ` + "`\"500ms\"`, `\"10s\"`, `\"1h30m\"`, `\"7d\"`" + `.
`
