package gascity

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// agent translates an [[agent]].
func (c *city) agent(from *toml.Value) *toml.Value {
	c.schema.inspect(from, "[[agent]]")
	a := toml.DeriveTable(from, "")
	if toml.TextOf(from, "name") != "" {
		setText(a, from.Field("name"), "name", c.coppiceName(from))
	} else {
		copyField(a, from, "name", "name")
	}
	p := c.locate(from)
	putIfSet(a, c.inWorkDir(c.command(from, p), p))
	if p.dir != nil && p.own == nil {
		putIfSet(a, toml.Derive(p.dir, toml.KindString, "dir", p.work))
	}
	putIfSet(a, c.env(from, p))
	c.runtime(a, from)
	putIfSet(a, c.script(from, p, "on_waking", ") || exit", "pre_start"))
	putIfSet(a, c.script(from, p, "on_start", `) || echo "session_setup: exit code $?" >&2`, "session_setup",
		"session_setup_script"))
	copyField(a, from, "idle_timeout", "idle_timeout")
	a.Put(c.backoff(from))
	putIfSet(a, c.dependsOn(from))
	putIfSet(a, c.pool(from, p))
	copyField(a, from, "suspended", "suspended")
	if p.rig != nil && textIs(p.rig, "suspended", toml.KindBool, "true") {
		a.Put(toml.CopyAs(p.rig.Field("suspended"), "suspended"))
	}
	return a
}

func textIs(v *toml.Value, name string, k toml.Kind, text string) bool {
	f := v.Field(name)
	return f != nil && f.Kind == k && f.Text == text
}

// location is the rig of an agent and the directory that it runs in.
type location struct {
	agent *toml.Value
	rig   *toml.Value // nil if it has none
	dir   *toml.Value // the value that sets its directory; nil for that of the city
	own   *toml.Value // work_dir, or nil. It need not exist, so the agent starts in the city
	work  string      // the directory as the file writes it
	pool  bool
}

// instance is the shell expression for the name of an instance of a pool.
const instance = "${COPPICE_AGENT##*/}"

func (c *city) locate(from *toml.Value) location {
	p := location{agent: from, pool: isPool(from)}
	if dir := toml.TextOf(from, "dir"); dir != "" {
		p.rig, p.dir, p.work = c.rigs[dir], from.Field("dir"), dir
	}
	if path := toml.TextOf(p.rig, "path"); path != "" {
		p.dir, p.work = p.rig.Field("path"), path
	}
	if work := from.Field("work_dir"); work != nil && !textIs(from, "work_dir", toml.KindString, "") {
		p.work, p.own = c.expand(work, p), work
	}
	return p
}

// env returns the variables of Gas City, of the provider and of the agent.
func (c *city) env(from *toml.Value, p location) *toml.Value {
	own := from.Field("env")
	if own != nil && own.Kind != toml.KindTable {
		return toml.CopyAs(own, "env")
	}
	t := toml.DeriveTable(from, "env")
	if own != nil {
		t = toml.DeriveTable(own, "env")
		t.Gone = own.Gone
	}
	setText(t, from, "GC_CITY", c.dir)
	setText(t, from, "GC_CITY_PATH", c.dir)
	setText(t, from, "GC_AGENT", c.cityName(from))
	if p.rig != nil {
		setText(t, from, "GC_RIG", toml.TextOf(p.rig, "name"))
		setText(t, from, "GC_RIG_ROOT", c.rigRoot(p.rig))
	}
	name := toml.TextOf(from, "provider")
	if name == "" && from.Field("start_command") == nil && c.workspace != nil &&
		c.workspace.Field("start_command") == nil {
		name = toml.TextOf(c.workspace, "provider")
	}
	for _, env := range []*toml.Value{below(c.provider(name), "env"), own} {
		if env != nil && c.r.Want(env, toml.KindTable, "a table of strings") {
			for _, f := range env.Fields {
				t.Put(toml.CopyAs(f, f.Name))
			}
		}
	}
	return t
}

// runtime sets the runtime of an agent.
func (c *city) runtime(a, from *toml.Value) {
	attach := from.Field("attach")
	if attach != nil && attach.Kind != toml.KindBool {
		a.Put(toml.CopyAs(attach, "terminal")) // whose reader reports the error
		return
	}
	if attach != nil && attach.Text == "false" {
		return
	}
	at := from
	if c.session != nil && c.session.Field("provider") != nil {
		at = c.session.Field("provider")
	}
	switch provider := toml.TextOf(c.session, "provider"); provider {
	case "tmux":
		setText(a, at, "runtime", "tmux")
	case "subprocess":
	default:
		if provider != "" && !c.foreign[provider] {
			c.foreign[provider] = true
			c.r.Notice(at, "%s is %s, which is not supported: agents are processes with a terminal", toml.KeyPath(at),
				spec.Quote(provider))
		}
		a.Put(toml.Derive(at, toml.KindBool, "terminal", "true"))
	}
}

// script returns a hook that runs lists of shell commands, each in a subshell, and the path
// of a script.
func (c *city) script(from *toml.Value, p location, hook, end string, keys ...string) *toml.Value {
	var b strings.Builder
	var first *toml.Value
	for _, key := range keys {
		v := from.Field(key)
		switch {
		case v == nil:
		case v.Kind == toml.KindString && strings.HasSuffix(key, "_script"):
			if v.Text != "" {
				fmt.Fprintf(&b, "(%s\n%s\n", shellQuote(c.path(v.Text, v.Source.Dir)), end)
			}
		case c.r.Want(v, toml.KindArray, "an array of strings"):
			for _, e := range v.Elements {
				if c.r.Want(e, toml.KindString, "a string") {
					fmt.Fprintf(&b, "(%s\n%s\n", c.expand(e, p), end)
				}
			}
		}
		if first == nil {
			first = v
		}
	}
	if b.Len() == 0 {
		return nil
	}
	script := b.String()
	if p.dir != nil && p.own == nil {
		script = "cd " + shellQuote(c.dir) + " || exit\n" + script
	}
	t, command := toml.DeriveTable(first, hook), toml.Derive(first, toml.KindArray, "command", "")
	for _, word := range []string{setting.Shell, "-c", script} {
		command.Append(toml.Derive(first, toml.KindString, "", word))
	}
	t.Put(command)
	putIfSet(t, toml.CopyAs(below(c.session, "setup_timeout"), "timeout"))
	return t
}

// dependsOn translates the names of agents in depends_on.
func (c *city) dependsOn(from *toml.Value) *toml.Value {
	v := from.Field("depends_on")
	if v == nil || v.Kind != toml.KindArray {
		return toml.CopyAs(v, "depends_on")
	}
	list := toml.Derive(v, toml.KindArray, "depends_on", "")
	for _, e := range v.Elements {
		name := toml.CopyAs(e, "")
		if e.Kind == toml.KindString {
			if called, ok := c.findAgent(e.Text, toml.TextOf(from, "dir"), c.origins[from].binding); ok {
				name.Text = called
			}
		}
		list.Append(name)
	}
	return list
}

// poolKeys maps keys of an agent to the keys of its pool.
func poolKeys() map[string]string {
	return map[string]string{
		"min_active_sessions": "min", "max_active_sessions": "max", "scale_check": "check",
		"drain_timeout": "drain_timeout", "on_boot": "on_boot", "on_death": "on_death", "namepool": "namepool",
	}
}

// isPool reports whether an agent can have a number of instances other than one.
func isPool(from *toml.Value) bool {
	if from.Field("pool") != nil {
		return true
	}
	for key := range poolKeys() {
		if from.Field(key) != nil && !(key == "max_active_sessions" && textIs(from, key, toml.KindInteger, "1")) {
			return true
		}
	}
	return false
}

func (c *city) pool(from *toml.Value, p location) *toml.Value {
	if !p.pool {
		return nil
	}
	table := from.Field("pool")
	if table != nil && table.Kind != toml.KindTable {
		return toml.CopyAs(table, "pool")
	}
	t := toml.DeriveTable(from, "pool")
	take := func(f *toml.Value, name string) {
		if f.Kind == toml.KindString && name == "namepool" && f.Text != "" && f.Source.Dir != c.dir {
			setText(t, f, name, c.path(f.Text, f.Source.Dir))
		} else if f.Kind == toml.KindString && (name == "check" || name == "on_boot" || name == "on_death") {
			putIfSet(t, toml.Derive(f, toml.KindString, name, c.expand(f, p)))
		} else {
			putIfSet(t, toml.CopyAs(f, name))
		}
	}
	if table != nil {
		t = toml.DeriveTable(table, "pool")
		c.schema.inspect(table, "[agent.pool]")
		for _, f := range table.Fields {
			if c.schema.tables["[agent.pool]"].key(f.Name) != nil {
				take(f, f.Name)
			}
		}
	}
	keys := poolKeys()
	for _, f := range from.Fields {
		if name, ok := keys[f.Name]; ok {
			take(f, name)
		}
	}
	if t.Field("max") == nil {
		setText(t, t, "max", "unlimited")
	}
	if t.Field("check") == nil {
		setText(t, t, "check", tasksOf(c.coppiceName(from)))
	}
	return t
}

// tasksOf returns a check that counts the tasks of a pool that are ready or in progress.
func tasksOf(pool string) string {
	of := " --json --pool " + shellQuote(pool)
	return "ready=$(coppice task ls --ready" + of + ") && busy=$(coppice task ls --status in_progress" + of + `) || exit
printf '%s\n' "$ready" "$busy" | grep -o '"created_at":"' | wc -l`
}

// expand replaces the templates in a text. For an instance of a pool it inserts a shell
// expression, as the instance is only known when it runs.
func (c *city) expand(v *toml.Value, p location) string {
	text, ok := c.r.Text(v, "a string")
	if !ok {
		return ""
	}
	return c.template.ReplaceAllStringFunc(text, func(found string) string {
		own := func(text string) string {
			if p.pool {
				return instance
			}
			return text
		}
		switch name := c.template.FindStringSubmatch(found)[1]; name {
		case ".CityRoot":
			return c.dir
		case ".ConfigDir":
			return c.homeOf(p.agent)
		case ".CityName":
			return c.name
		case ".Agent":
			return own(c.cityName(p.agent))
		case ".AgentBase":
			return own(toml.TextOf(p.agent, "name"))
		case ".Session":
			return own(c.coppiceName(p.agent))
		case ".Rig":
			return toml.TextOf(p.rig, "name")
		case ".RigRoot":
			if p.rig == nil {
				return ""
			}
			return c.rigRoot(p.rig)
		case ".WorkDir":
			return toml.Absolute(c.dir, p.work)
		default:
			c.r.Fail(v, "use one of .CityRoot, .CityName, .ConfigDir, .Agent, .AgentBase, .Rig, "+
				".RigRoot, .WorkDir, .Session", "%s is not known in %s", spec.Quote(found), c.r.Label(v))
			return found
		}
	})
}
