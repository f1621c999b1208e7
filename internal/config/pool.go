package config

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// pool is an [agent.pool] while it is read.
type pool struct {
	spec.Pool
	max  *int
	file *toml.Value // namepool, if it is the path of a file
}

// maxInstancesType is the type of the key max.
const maxInstancesType = `integer or "unlimited"`

func poolTable() toml.Table[pool] {
	return toml.Table[pool]{
		Header: "[agent.pool]",
		Doc: "Makes the agent a pool: as many instances as a check asks for, `NAME-1`, `NAME-2` and so on, below " +
			"a supervisor `NAME`. A surplus instance drains before it is stopped. Each instance finds its pool " +
			"in `COPPICE_POOL` and its number in `COPPICE_INSTANCE`. If the agent has no limit of its own, each " +
			"instance has that of `[daemon]`. See [Pools](pools.md).",
		Example: `[[agent]]
name = "worker"
command = "./worker.sh"

[agent.pool]
min = 1
max = 5
check = "ls queue | wc -l"
drain_timeout = "10m"
`,
		Keys: []toml.Key[pool]{
			{Name: "min", Type: "integer", Default: "0", Doc: "the least number of instances, whatever the check " +
				"prints", Also: []string{"min_instances", "min_active_sessions", "minimum"},
				Read: toml.Int(0, spec.MaxInstances, func(p *pool) *int { return &p.Min })},
			{Name: "max", Type: maxInstancesType,
				Default: "the number of names in `namepool`, else 1 or `min`",
				Doc: fmt.Sprintf("the greatest number; 0 for none at all. `-1` is the same as "+
					"`\"unlimited\"`, which is %d", spec.MaxInstances),
				Also: []string{"max_instances", "max_active_sessions", "maximum", "replicas", "count", "instances"},
				Read: func(r *toml.Reader, v *toml.Value, into *pool) {
					into.max = r.IntegerOrUnlimited(v, spec.UnlimitedPool, spec.MaxInstances)
				}},
			{Name: "check", Type: "string or array of strings", Default: `"echo 1"`,
				Doc: "a command, written as `command` is, with the directory and the environment of the agent " +
					"but without its token, that prints how many instances are wanted: an integer and nothing " +
					"else. It runs every `patrol_interval`. If it fails or prints anything else, nothing changes",
				Also: []string{"scale_check", "scale", "size_command", "work_query"},
				Read: setting.CommandKey(func(p *pool) *[]string { return &p.Check })},
			{Name: "check_timeout", Type: "duration", Default: "30s",
				Doc:  "how long the check may take; then it is killed, with all processes that it has started",
				Also: []string{"timeout"},
				Read: toml.Duration(func(p *pool) *time.Duration { return &p.CheckTimeout })},
			{Name: "drain_timeout", Type: "duration", Default: "5m",
				Doc:  "how long a surplus instance may take to finish its work; then it is stopped in any case",
				Also: []string{"drain", "grace"},
				Read: toml.Duration(func(p *pool) *time.Duration { return &p.DrainTimeout })},
			hookKey("pool.", "on_boot", "what to run when the daemon starts, before the first instance is started; "+
				"like a hook of the agent, but without an instance", func(p *pool) *spec.Hook { return &p.OnBoot }),
			hookKey("pool.", "on_death", "what to run when an instance has ended without being asked to, before a "+
				"replacement starts; like `on_error`, but also after an exit with 0",
				func(p *pool) *spec.Hook { return &p.OnDeath }),
			{Name: "namepool", Type: "string or array of strings", Doc: "names of the instances, instead of " +
				"numbers: a list, or the path of a file with one name a line, relative to this one. Empty lines " +
				"and lines that begin with `#` are skipped", Also: []string{"names", "name_pool"},
				Read: readNamepool},
		},
	}
}

func readNamepool(r *toml.Reader, v *toml.Value, into *pool) {
	const expected = "the path of a file or an array of names"
	if v.Kind == toml.KindArray {
		if names, ok := r.List(v, expected); ok {
			into.Names = names
		}
	} else if _, ok := r.Text(v, expected); ok {
		into.file = v
	}
}

// readNamepools reads the files with names of instances.
func readNamepools(r *toml.Reader, f *file, dir string, g *fileset.Set) {
	for _, a := range f.agents {
		p := a.pool
		if p == nil || p.file == nil {
			continue
		}
		path := toml.Absolute(dir, p.file.Text)
		names, data, err := readNames(path)
		g.Note(path, data)
		if err != nil {
			r.Fail(p.file, "write one name in each line of it, or a list of names here",
				"namepool %s cannot be used: %v", spec.Quote(p.file.Text), err)
		}
		p.Names = names
	}
}

// readNames reads a file with one name per line. data is its content.
func readNames(path string) (names []string, data []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, toml.Reason(err)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("it is a %s, expected a regular file", toml.FileType(info.Mode()))
	case info.Size() > maxNames:
		return nil, nil, fmt.Errorf("it has %d bytes, expected at most %d", info.Size(), maxNames)
	}
	if data, err = os.ReadFile(path); err != nil {
		return nil, nil, toml.Reason(err)
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

// maxNames is the largest size of a file of names in bytes.
const maxNames = spec.MaxInstances * (spec.MaxName + 64)

// declared returns the pool for a declaration, with its maximum filled in.
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
