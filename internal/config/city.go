package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// CityName is what Find looks for where there is no coppice.toml: the file of a
// Gas City, of which the part about agents is read.
const CityName = "city.toml"

// city makes of a city.toml the document that a coppice.toml would be: the
// same tables read both, and every value keeps its place.
type city struct {
	r         *reader
	dir       string // of the file, absolute
	name      string
	tables    map[string]cityTable // by header
	agentRows section              // of coppice.toml
	workspace *value               // these may be nil
	providers *value
	session   *value
	rigs      map[string]*value
	names     map[string]string // what agents are called, by dir/name
	foreign   map[string]bool   // providers of sessions that were named
}

// city translates a document whose patches have been applied.
func (r *reader) city(document *value, dir string) *value {
	c := &city{
		r: r, dir: dir, tables: map[string]cityTable{}, agentRows: agentTable().section(), foreign: map[string]bool{},
		rigs: map[string]*value{}, names: map[string]string{},
	}
	for _, t := range cityTables() {
		c.tables[t.header] = t
	}
	c.inspect(document, "")
	c.workspace, c.session = c.table(document, "workspace"), c.table(document, "session")
	if c.providers = c.only(document, "providers"); c.providers != nil {
		for _, p := range c.providers.fields {
			if r.want(p, isTable, "a table") {
				c.inspect(p, "[providers.*]")
			}
		}
	}
	for _, rig := range c.elements(document, "rigs") {
		c.inspect(rig, "[[rigs]]")
		if name := rig.byName["name"]; name != nil && name.kind == isString && c.rigs[name.text] == nil {
			c.rigs[name.text] = rig
		}
	}

	out := newTable(document.src, "", 0, nil)
	c.project(out)
	c.daemon(document, out)
	if orders := document.remove("orders"); orders != nil {
		if fileTable().section().row("orders") == nil {
			r.notice(orders, "orders is not supported")
		} else {
			out.adopt(orders)
		}
	}
	agents := c.elements(document, "agent")
	for _, a := range agents {
		if name := textOf(a, "name"); name != "" {
			c.names[qualified(a)] = strings.ReplaceAll(qualified(a), "/", "--")
		}
	}
	if len(agents) == 0 {
		r.notice(document, "there is no agent in this city; those of packs are not read: write them as [[agent]]")
	}
	if len(agents) > 0 {
		all := &value{kind: isArray, src: document.src, name: "agent", at: document.byName["agent"].at, key: document.byName["agent"].key}
		for _, a := range agents {
			made := c.agent(a)
			made.parent = all
			all.append(made)
		}
		out.adopt(all)
	}
	return out
}

// dropProviderPatches names patches of what is not patched.
func (r *reader) dropProviderPatches(document *value) {
	patches := document.byName["patches"]
	if patches == nil || patches.kind != isTable {
		return
	}
	if p := patches.byName["providers"]; p != nil {
		r.notice(p, "patches.providers is not supported: write it in [providers]")
		patches.remove("providers")
	}
}

// inspect names what is not supported, and what is not known.
func (c *city) inspect(v *value, header string) {
	t := c.tables[header]
	for _, f := range v.fields {
		switch k := t.key(f.name); {
		case k == nil:
			rows := t.section().rows
			names := make([]string, len(rows))
			for i, row := range rows {
				names[i] = row.name
			}
			where := header
			if where == "" {
				where = "the file"
			}
			if near := suggest.Nearest(f.name, names); near != "" {
				c.r.fail(f.key, f, "did you mean "+strconv.Quote(near)+"?", "unknown key %s in %s", spec.Quote(f.name), where)
			} else {
				c.r.notice(f, "%s is not known, and not used", keyPath(f))
			}
		case k.unused:
			c.r.notice(f, "%s is not supported: %s", keyPath(f), strings.ReplaceAll(k.doc, "`", ""))
		}
	}
}

// only returns a field that is a table; nil if there is none.
func (c *city) only(v *value, name string) *value {
	f := v.byName[name]
	if f == nil || !c.r.want(f, isTable, "a table") {
		return nil
	}
	return f
}

// table is only, and inspects it.
func (c *city) table(v *value, name string) *value {
	f := c.only(v, name)
	if f != nil {
		c.inspect(f, "["+name+"]")
	}
	return f
}

// elements are those of an array of tables.
func (c *city) elements(v *value, name string) (all []*value) {
	f := v.byName[name]
	if f == nil {
		return nil
	}
	if f.kind == isTable {
		c.r.fail(f.key, f, "write [["+name+"]]", "%s is a single table, expected an array of tables", name)
		return nil
	}
	if c.r.want(f, isArray, "an array of tables") {
		for _, e := range f.elements {
			if c.r.want(e, isTable, "a table") {
				all = append(all, e)
			}
		}
	}
	return all
}

// textOf is a field that is a string; "" if there is none.
func textOf(v *value, name string) string {
	if v == nil || v.byName[name] == nil || v.byName[name].kind != isString {
		return ""
	}
	return v.byName[name].text
}

// qualified is what Gas City calls an agent: dir/name, or name.
func qualified(a *value) string {
	return strings.TrimPrefix(textOf(a, "dir")+"/"+textOf(a, "name"), "/")
}

// copyOf is a value to be put somewhere else, under another name; nil of nil.
func copyOf(v *value, name string) *value {
	if v == nil {
		return nil
	}
	c := *v
	c.name, c.parent = name, nil
	return &c
}

// made is a value that stands for another one, at its place.
func made(from *value, k kind, name, text string) *value {
	return &value{kind: k, src: from.src, at: from.at, key: from.key, name: name, text: text, over: from.over}
}

func madeTable(from *value, name string) *value {
	t := newTable(from.src, name, from.at, nil)
	t.key = from.key
	return t
}

// give puts a value that is not nil into a table; an empty text is none.
func give(t, v *value) {
	if v != nil && !(v.kind == isString && v.text == "") {
		t.put(v)
	}
}

func (c *city) project(out *value) {
	c.name = projectName(c.dir)
	if c.workspace == nil {
		return
	}
	t := madeTable(c.workspace, "project")
	give(t, copyOf(c.workspace.byName["name"], "name"))
	give(t, copyOf(c.workspace.byName["suspended"], "suspended"))
	if name := textOf(c.workspace, "name"); name != "" {
		c.name = name
	}
	out.adopt(t)
}

// daemon makes [daemon], which every city has: the patrol keeps its agents.
func (c *city) daemon(document, out *value) {
	from := c.table(document, "daemon")
	if from == nil {
		out.adopt(newTable(document.src, "daemon", 0, nil))
		return
	}
	t := madeTable(from, "daemon")
	for _, f := range from.fields {
		switch f.name {
		case "patrol_interval", "restart_window", "shutdown_timeout", "drift_drain_timeout":
			give(t, copyOf(f, f.name))
		case "wisp_gc_interval":
			give(t, copyOf(f, "gc_interval"))
		case "wisp_ttl":
			give(t, copyOf(f, "ttl"))
		case "max_restarts":
			if f.kind == isInteger && strings.HasPrefix(f.text, "-") {
				give(t, made(f, isInteger, f.name, "0"))
			} else {
				give(t, copyOf(f, f.name))
			}
		}
	}
	out.adopt(t)
}

// agent makes an [[agent]].
func (c *city) agent(from *value) *value {
	c.inspect(from, "[[agent]]")
	a := madeTable(from, "")
	if name := from.byName["name"]; name != nil && name.kind == isString && name.text != "" {
		a.put(made(name, isString, "name", c.names[qualified(from)]))
	} else {
		give(a, copyOf(name, "name"))
	}
	p := c.placeOf(from)
	give(a, c.command(from, p))
	if p.dir != nil {
		give(a, made(p.dir, isString, "dir", p.work))
	}
	give(a, c.env(from, p))
	c.runtime(a, from)
	give(a, c.script(from, p, "on_waking", ") || exit", "pre_start"))
	give(a, c.script(from, p, "on_start", `) || echo "session_setup: exit code $?" >&2`, "session_setup", "session_setup_script"))
	if idle := from.byName["idle_timeout"]; idle != nil && !textIs(from, "idle_timeout", isString, "") {
		if c.agentRows.row("idle_timeout") == nil {
			c.r.notice(idle, "%s is not supported", keyPath(idle))
		} else {
			give(a, copyOf(idle, "idle_timeout"))
		}
	}
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
	work  string // where it runs, in the words of the file
	pool  bool
}

func (c *city) placeOf(from *value) place {
	p := place{agent: from, pool: isPool(from)}
	if dir := from.byName["dir"]; dir != nil && dir.kind == isString && dir.text != "" {
		p.rig, p.dir, p.work = c.rigs[dir.text], dir, dir.text
	}
	if path := textOf(p.rig, "path"); path != "" {
		p.dir, p.work = p.rig.byName["path"], path
	}
	if work := from.byName["work_dir"]; work != nil {
		p.dir, p.work = work, c.expand(work, p)
	}
	return p
}

// command is what an agent runs: its own start_command, that of its provider,
// that of the workspace, that of the provider of the workspace.
func (c *city) command(from *value, p place) *value {
	start, provider := from.byName["start_command"], from.byName["provider"]
	if start == nil && provider == nil && c.workspace != nil {
		if start = c.workspace.byName["start_command"]; start == nil {
			provider = c.workspace.byName["provider"]
		}
	}
	var text string
	args := from.byName["args"]
	origin := start
	switch {
	case start != nil && start.kind != isString:
		return copyOf(start, "command")
	case start != nil:
		text = c.expand(start, p)
	case provider != nil:
		origin = provider
		name, ok := c.r.text(provider, "the name of a provider")
		if !ok {
			return made(from, isString, "command", "true") // has failed already
		}
		text = name
		if declared := c.provider(name); declared != nil {
			if base, ok := strings.CutPrefix(textOf(declared, "base"), "builtin:"); ok {
				text = base
			}
			if command := declared.byName["command"]; command != nil {
				text, origin = textOf(declared, "command"), command
				if text == "" {
					return copyOf(command, "command")
				}
			}
			if args == nil {
				args = declared.byName["args"]
			}
		}
	default:
		c.r.fail(from.at, from, "write start_command, or provider, here or in [workspace]", "agent %s has nothing to run, expected a command", spec.Quote(qualified(from)))
		return made(from, isString, "command", "true")
	}
	if args != nil && c.r.want(args, isArray, "an array of strings") {
		for _, arg := range args.elements {
			if c.r.want(arg, isString, "a string") {
				text += " " + shellQuote(arg.text)
			}
		}
	}
	return made(origin, isString, "command", text)
}

// provider is a table of [providers].
func (c *city) provider(name string) *value {
	if c.providers == nil {
		return nil
	}
	if p := c.providers.byName[name]; p != nil && p.kind == isTable {
		return p
	}
	return nil
}

// shellQuote makes one word of text for the shell.
func shellQuote(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t") && isPlain(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
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
	set("GC_AGENT", qualified(from))
	if p.rig != nil {
		set("GC_RIG", textOf(p.rig, "name"))
		set("GC_RIG_ROOT", under(c.dir, textOf(p.rig, "path")))
	}
	name := textOf(from, "provider")
	if name == "" && from.byName["start_command"] == nil && c.workspace != nil && c.workspace.byName["start_command"] == nil {
		name = textOf(c.workspace, "provider")
	}
	for _, origin := range []*value{c.provider(name), from} {
		if origin == nil || origin.byName["env"] == nil || !c.r.want(origin.byName["env"], isTable, "a table of strings") {
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
			c.r.notice(at, "%s is %s, which is not supported: agents are processes with a terminal", keyPath(at), spec.Quote(provider))
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
				path := under(c.dir, strings.TrimPrefix(v.text, "//"))
				fmt.Fprintf(&b, "(%s\n%s\n", shellQuote(path), end)
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
	t, command := madeTable(first, hook), made(first, isArray, "command", "")
	for _, word := range []string{shell, "-c", b.String()} {
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
			near, ok := c.names[strings.TrimPrefix(textOf(from, "dir")+"/"+e.text, "/")]
			if !ok {
				near, ok = c.names[e.text]
			}
			if ok {
				name.text = near
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
		"min_active_sessions": "min", "max_active_sessions": "max", "scale_check": "check", "drain_timeout": "drain_timeout",
		"on_boot": "on_boot", "on_death": "on_death", "namepool": "namepool",
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
		if f.kind == isString && (name == "check" || name == "on_boot" || name == "on_death") {
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
	return t
}

// expand replaces the templates in a text. What belongs to one instance of a
// pool is only known to the shell, once there is one.
func (c *city) expand(v *value, p place) string {
	text, ok := c.r.text(v, "a string")
	if !ok {
		return ""
	}
	template := regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	return template.ReplaceAllStringFunc(text, func(found string) string {
		own := func(text string) string {
			if p.pool {
				return "${COPPICE_AGENT##*/}"
			}
			return text
		}
		switch name := template.FindStringSubmatch(found)[1]; name {
		case ".CityRoot", ".ConfigDir":
			return c.dir
		case ".CityName":
			return c.name
		case ".Agent":
			return own(qualified(p.agent))
		case ".AgentBase":
			return own(textOf(p.agent, "name"))
		case ".Session":
			return own(c.names[qualified(p.agent)])
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
			c.r.fail(v.at, v, "use one of .CityRoot, .CityName, .Agent, .AgentBase, .Rig, .RigRoot, .WorkDir, .Session", "%s is not known in %s", spec.Quote(found), keyPath(v))
			return found
		}
	})
}
