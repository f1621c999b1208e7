package config

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/spec"
)

// pool is an [agent.pool] while it is read.
type pool struct {
	spec.Pool
	max  *int
	file *value // namepool, where it is the path of a file
}

// maxInstancesType is the type of the greatest number of instances.
const maxInstancesType = `integer or "unlimited"`

func poolTable() table[pool] {
	return table[pool]{
		header: "[agent.pool]",
		doc: "Makes a pool of the agent: as many instances of it as a check asks for, `NAME-1`, `NAME-2` and so " +
			"on, below a supervisor `NAME`. One that is no longer wanted is asked to finish before it is stopped. " +
			"Each finds its pool in `COPPICE_POOL` and its number in `COPPICE_INSTANCE`. Where the agent has no " +
			"limit of its own, each instance has that of `[daemon]`. See [Pools](pools.md).",
		example: `[[agent]]
name = "worker"
command = "./worker.sh"

[agent.pool]
min = 1
max = 5
check = "ls queue | wc -l"
drain_timeout = "10m"
`,
		keys: []key[pool]{
			{row{name: "min", typ: "integer", def: "0", doc: "the least number of instances, whatever the check says",
				also: []string{"min_instances", "min_active_sessions", "minimum"}},
				func(r *reader, v *value, into *pool) {
					if n, ok := r.integer(v, 0, spec.MaxInstances,
						fmt.Sprintf("an integer from 0 to %d", spec.MaxInstances)); ok {
						into.Min = int(n)
					}
				}},
			{row{name: "max", typ: maxInstancesType,
				def: "the number of names in `namepool`, else 1 or `min`",
				doc: fmt.Sprintf("the greatest number; 0 for none at all. `-1` is the same as "+
					"`\"unlimited\"`, which is %d", spec.MaxInstances),
				also: []string{"max_instances", "max_active_sessions", "maximum", "replicas", "count", "instances"}},
				(*reader).poolMax},
			{row{name: "check", typ: "string or array of strings", def: `"echo 1"`,
				doc: "a command, written as `command` is, with the directory and the environment of the agent but " +
					"not its token, that prints how many instances are wanted: an integer and nothing else. It " +
					"runs every `patrol_interval`. What fails, or prints anything else, changes nothing",
				also: []string{"scale_check", "scale", "size_command", "work_query"}},
				commandKey(func(p *pool) *[]string { return &p.Check })},
			{row{name: "check_timeout", typ: "duration", def: "30s",
				doc:  "how long the check may take; it is killed then, with all that it has started",
				also: []string{"timeout"}}, duration(func(p *pool) *time.Duration { return &p.CheckTimeout })},
			{row{name: "drain_timeout", typ: "duration", def: "5m", doc: "how long an instance that is no longer " +
				"wanted may take to finish; it is stopped then, also if it has not",
				also: []string{"drain", "grace"}}, duration(func(p *pool) *time.Duration { return &p.DrainTimeout })},
			poolHook("on_boot", "what to run when the daemon begins, before the first instance is started; as a "+
				"hook of the agent, but without an instance", func(p *pool) *spec.Hook { return &p.OnBoot }),
			poolHook("on_death", "what to run when an instance has ended that nobody has asked to end, before "+
				"anything takes its place; as `on_error`, but also after an exit with 0",
				func(p *pool) *spec.Hook { return &p.OnDeath }),
			{row{name: "namepool", typ: "string or array of strings", doc: "names of the instances, in place of " +
				"numbers: a list, or the path of a file with one in each line, relative to this one. Empty lines " +
				"and lines that begin with `#` do not count", also: []string{"names", "name_pool"}},
				(*reader).namepool},
		},
	}
}

func poolHook(name, doc string, field func(*pool) *spec.Hook) key[pool] {
	return key[pool]{row{name: name, typ: hookType, doc: doc},
		func(r *reader, v *value, into *pool) {
			if v.kind == isTable {
				hookTable("pool."+name).read(r, v, field(into))
			} else if argv, ok := r.command(v); ok {
				field(into).Command = argv
			}
		}}
}

func (r *reader) poolMax(v *value, into *pool) {
	expected := fmt.Sprintf(`an integer from 0 to %d or "unlimited"`, spec.MaxInstances)
	n := int64(spec.UnlimitedPool)
	switch {
	case v.kind == isString && v.text == "unlimited":
	case v.kind == isString:
		r.fail(v.at, v, "", "max is %s, expected %s", spec.Quote(v.text), expected)
		return
	default:
		var ok bool
		if n, ok = r.integer(v, spec.UnlimitedPool, spec.MaxInstances, expected); !ok {
			return
		}
	}
	m := int(n)
	into.max = &m
}

func (r *reader) namepool(v *value, into *pool) {
	const expected = "the path of a file or an array of names"
	if v.kind == isArray {
		if names, ok := r.list(v, expected); ok {
			into.Names = names
		}
	} else if _, ok := r.text(v, expected); ok {
		into.file = v
	}
}

// readPool reads the pool of an agent.
func (r *reader) readPool(v *value, into *agent) {
	into.pool = new(pool)
	poolTable().read(r, v, into.pool)
}

// namepools reads the files with the names of instances.
func (r *reader) namepools(f *file, dir string, g *gatherer) {
	for i := range f.agents {
		p := f.agents[i].pool
		if p == nil || p.file == nil {
			continue
		}
		path := under(dir, p.file.text)
		names, data, err := readNames(path)
		g.note(path, data)
		if err != nil {
			r.fail(p.file.at, p.file, "write one name in each line of it, or a list of names here",
				"namepool %s cannot be used: %v", spec.Quote(p.file.text), err)
		}
		p.Names = names
	}
}

// readNames reads a file with a name in each line; data is what it holds.
func readNames(path string) (names []string, data []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, reason(err)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("it is a %s, expected a regular file", fileType(info.Mode()))
	case info.Size() > maxNames:
		return nil, nil, fmt.Errorf("it has %d bytes, expected at most %d", info.Size(), maxNames)
	}
	if data, err = os.ReadFile(path); err != nil {
		return nil, nil, reason(err)
	}
	if !utf8.Valid(data) {
		return nil, data, fmt.Errorf("it is not UTF-8")
	}
	names = []string{}
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names, data, nil
}

// maxNames bounds the size of a file of names.
const maxNames = spec.MaxInstances * (spec.MaxName + 64)

// declared is the pool as the declarations have it.
func (p *pool) declared() *spec.Pool {
	if p == nil {
		return nil
	}
	switch {
	case p.max != nil:
		p.Max = *p.max
	case p.Names != nil:
		p.Max = len(p.Names)
	default:
		p.Max = max(1, p.Min)
	}
	return &p.Pool
}
