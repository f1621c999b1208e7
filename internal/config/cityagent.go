package config

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// agent makes an [[agent]].
func (c *city) agent(from *value) *value {
	c.inspect(from, "[[agent]]")
	a := madeTable(from, "")
	if name := from.byName["name"]; name != nil && name.kind == isString && name.text != "" {
		a.put(made(name, isString, "name", c.called(from)))
	} else {
		give(a, copyOf(name, "name"))
	}
	p := c.placeOf(from)
	give(a, c.inPlace(c.command(from, p), p))
	if p.dir != nil && p.own == nil {
		give(a, made(p.dir, isString, "dir", p.work))
	}
	give(a, c.env(from, p))
	c.runtime(a, from)
	give(a, c.script(from, p, "on_waking", ") || exit", "pre_start"))
	give(a, c.script(from, p, "on_start", `) || echo "session_setup: exit code $?" >&2`, "session_setup",
		"session_setup_script"))
	if idle := from.byName["idle_timeout"]; idle != nil && !textIs(from, "idle_timeout", isString, "") {
		give(a, copyOf(idle, "idle_timeout"))
	}
	a.put(c.backoff(from))
	give(a, c.dependsOn(from))
	give(a, c.pool(from, p))
	give(a, copyOf(from.byName["suspended"], "suspended"))
	if p.rig != nil && textIs(p.rig, "suspended", isBool, "true") {
		a.put(copyOf(p.rig.byName["suspended"], "suspended"))
	}
	return a
}

func textIs(v *value, name string, k kind, text string) bool {
	f := v.byName[name]
	return f != nil && f.kind == k && f.text == text
}

// place is where an agent belongs and runs.
type place struct {
	agent *value
	rig   *value // nil if it belongs to none
	dir   *value // what says where it runs; nil for the directory of the city
	own   *value // work_dir, which need not exist; then its directory is that of the city. It may be nil
	work  string // where it runs, in the words of the file
	pool  bool
}

// instance is what instances of a pool have each of their own, for the shell.
const instance = "${COPPICE_AGENT##*/}"

func (c *city) placeOf(from *value) place {
	p := place{agent: from, pool: isPool(from)}
	if dir := from.byName["dir"]; dir != nil && dir.kind == isString && dir.text != "" {
		p.rig, p.dir, p.work = c.rigs[dir.text], dir, dir.text
	}
	if path := textOf(p.rig, "path"); path != "" {
		p.dir, p.work = p.rig.byName["path"], path
	}
	if work := from.byName["work_dir"]; work != nil && !textIs(from, "work_dir", isString, "") {
		work, text := work, c.expand(work, p)
		p.own, p.work = work, text
	}
	return p
}

// env is what Gas City tells its agents, what the provider adds, and what the agent does.
func (c *city) env(from *value, p place) *value {
	own := from.byName["env"]
	if own != nil && own.kind != isTable {
		return copyOf(own, "env")
	}
	t := madeTable(from, "env")
	if own != nil {
		t = madeTable(own, "env")
		t.gone = own.gone
	}
	set := func(name, text string) { t.put(made(from, isString, name, text)) }
	set("GC_CITY", c.dir)
	set("GC_CITY_PATH", c.dir)
	set("GC_AGENT", c.identity(from))
	if p.rig != nil {
		set("GC_RIG", textOf(p.rig, "name"))
		set("GC_RIG_ROOT", under(c.dir, textOf(p.rig, "path")))
	}
	name := textOf(from, "provider")
	if name == "" && from.byName["start_command"] == nil && c.workspace != nil &&
		c.workspace.byName["start_command"] == nil {
		name = textOf(c.workspace, "provider")
	}
	for _, origin := range []*value{c.provider(name), from} {
		if origin == nil || origin.byName["env"] == nil ||
			!c.r.want(origin.byName["env"], isTable, "a table of strings") {
			continue
		}
		for _, f := range origin.byName["env"].fields {
			t.put(copyOf(f, f.name))
		}
	}
	return t
}

// runtime says where an agent runs.
func (c *city) runtime(a, from *value) {
	attach := from.byName["attach"]
	if attach != nil && attach.kind != isBool {
		a.put(copyOf(attach, "terminal")) // which says what is wrong
		return
	}
	if attach != nil && attach.text == "false" {
		return
	}
	at := from
	if c.session != nil && c.session.byName["provider"] != nil {
		at = c.session.byName["provider"]
	}
	switch provider := textOf(c.session, "provider"); provider {
	case "tmux":
		a.put(made(at, isString, "runtime", "tmux"))
	case "subprocess":
	default:
		if provider != "" && !c.foreign[provider] {
			c.foreign[provider] = true
			c.r.notice(at, "%s is %s, which is not supported: agents are processes with a terminal", keyPath(at),
				spec.Quote(provider))
		}
		a.put(made(at, isBool, "terminal", "true"))
	}
}

// script makes a hook of lists of shell commands, each in a shell of its own,
// and of the path of a script.
func (c *city) script(from *value, p place, hook, end string, keys ...string) *value {
	var b strings.Builder
	var first *value
	for _, key := range keys {
		v := from.byName[key]
		switch {
		case v == nil:
		case v.kind == isString && strings.HasSuffix(key, "_script"):
			if v.text != "" {
				fmt.Fprintf(&b, "(%s\n%s\n", shellQuote(c.path(v.text, v.src.dir)), end)
			}
		case c.r.want(v, isArray, "an array of strings"):
			for _, e := range v.elements {
				if c.r.want(e, isString, "a string") {
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
	t, command := madeTable(first, hook), made(first, isArray, "command", "")
	for _, word := range []string{shell, "-c", script} {
		e := made(first, isString, "", word)
		e.parent = command
		command.append(e)
	}
	t.put(command)
	if c.session != nil {
		give(t, copyOf(c.session.byName["setup_timeout"], "timeout"))
	}
	return t
}

// dependsOn names agents as Coppice does.
func (c *city) dependsOn(from *value) *value {
	v := from.byName["depends_on"]
	if v == nil || v.kind != isArray {
		return copyOf(v, "depends_on")
	}
	list := made(v, isArray, "depends_on", "")
	for _, e := range v.elements {
		name := copyOf(e, "")
		if e.kind == isString {
			if called, ok := c.meant(e.text, textOf(from, "dir"), c.homes[from].binding); ok {
				name.text = called
			}
		}
		name.parent = list
		list.append(name)
	}
	return list
}

// poolKeys are the keys of a pool, as they are written beside the agent's own.
func poolKeys() map[string]string {
	return map[string]string{
		"min_active_sessions": "min", "max_active_sessions": "max", "scale_check": "check",
		"drain_timeout": "drain_timeout",
		"on_boot":       "on_boot", "on_death": "on_death", "namepool": "namepool",
	}
}

// isPool reports whether there is more than one instance of an agent, or less.
func isPool(from *value) bool {
	if from.byName["pool"] != nil {
		return true
	}
	for key := range poolKeys() {
		if v := from.byName[key]; v != nil && !(key == "max_active_sessions" && v.kind == isInteger && v.text == "1") {
			return true
		}
	}
	return false
}

func (c *city) pool(from *value, p place) *value {
	if !p.pool {
		return nil
	}
	table := from.byName["pool"]
	if table != nil && table.kind != isTable {
		return copyOf(table, "pool")
	}
	t := madeTable(from, "pool")
	take := func(f *value, name string) {
		if f.kind == isString && name == "namepool" && f.text != "" && f.src.dir != c.dir {
			t.put(made(f, isString, name, c.path(f.text, f.src.dir)))
		} else if f.kind == isString && (name == "check" || name == "on_boot" || name == "on_death") {
			give(t, made(f, isString, name, c.expand(f, p)))
		} else {
			give(t, copyOf(f, name))
		}
	}
	if table != nil {
		t = madeTable(table, "pool")
		c.inspect(table, "[agent.pool]")
		for _, f := range table.fields {
			if k := c.tables["[agent.pool]"].key(f.name); k != nil {
				take(f, f.name)
			}
		}
	}
	keys := poolKeys()
	for _, f := range from.fields {
		if name, ok := keys[f.name]; ok {
			take(f, name)
		}
	}
	if t.byName["max"] == nil {
		t.put(made(t, isString, "max", "unlimited"))
	}
	if t.byName["check"] == nil {
		t.put(made(t, isString, "check", tasksOf(c.called(from))))
	}
	return t
}

// tasksOf is a check that counts the tasks of a pool that are ready or being worked on.
func tasksOf(pool string) string {
	of := " --json --pool " + shellQuote(pool)
	return "ready=$(coppice task ls --ready" + of + ") && busy=$(coppice task ls --status in_progress" + of + `) || exit
printf '%s\n' "$ready" "$busy" | grep -o '"created_at":"' | wc -l`
}

// expand replaces the templates in a text. What belongs to one instance of a
// pool is only known to the shell, once there is one.
func (c *city) expand(v *value, p place) string {
	text, ok := c.r.text(v, "a string")
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
			return own(c.identity(p.agent))
		case ".AgentBase":
			return own(textOf(p.agent, "name"))
		case ".Session":
			return own(c.called(p.agent))
		case ".Rig":
			return textOf(p.rig, "name")
		case ".RigRoot":
			if p.rig == nil {
				return ""
			}
			return under(c.dir, textOf(p.rig, "path"))
		case ".WorkDir":
			return under(c.dir, p.work)
		default:
			c.r.fail(v.at, v, "use one of .CityRoot, .CityName, .ConfigDir, .Agent, .AgentBase, .Rig, "+
				".RigRoot, .WorkDir, .Session", "%s is not known in %s", spec.Quote(found), c.r.label(v))
			return found
		}
	})
}
