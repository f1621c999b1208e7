package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Limits.
const (
	MaxName     = 64        // bytes of a name, which becomes a segment of paths and file names
	MaxRestarts = 1_000_000 // the largest Limit.Max
	// MaxVariable is the longest argument or variable that Linux passes to a program:
	// MAX_ARG_STRLEN without the final zero byte.
	MaxVariable = 128<<10 - 1
)

// CheckName returns the fault of the name of an agent or supervisor, or "". A name is a
// segment of paths, file names and messages: 1 to 64 bytes of printable UTF-8 without "/". It
// is not "." or "..", and has no leading "-" and no space at either end.
func CheckName(name string) string {
	switch {
	case name == "":
		return "the name is missing"
	case len(name) > MaxName:
		return fmt.Sprintf("the name %s has %d bytes, expected at most %d", Quote(name), len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Sprintf("the name %s is not UTF-8", Quote(name))
	case name == "." || name == "..":
		return fmt.Sprintf("the name %s means a directory, expected another one", Quote(name))
	case name[0] == '-':
		return fmt.Sprintf("the name %s looks like a flag, expected one without \"-\" in front", Quote(name))
	case strings.TrimSpace(name) != name:
		return fmt.Sprintf("the name %s begins or ends with a space, expected none there", Quote(name))
	}
	for _, r := range name {
		if r == '/' {
			return fmt.Sprintf("the name %s contains \"/\", expected one segment of a path", Quote(name))
		}
		if !unicode.IsPrint(r) {
			return fmt.Sprintf("the name %s contains the character %U, expected printable ones", Quote(name), r)
		}
	}
	return ""
}

// Quote quotes text for a message. It escapes unprintable characters and truncates a long
// text.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		return strconv.Quote(text[:cut]) + "..."
	}
	return strconv.Quote(text)
}

// checker checks one declaration on its own, and fills in its defaults.
type checker struct {
	decl     int // index of the declaration; Root for the root
	problems *[]Problem
}

func (c checker) problem(path []string, hint, format string, args ...any) {
	*c.problems = append(*c.problems,
		Problem{Decl: c.decl, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (c checker) checkNode(n *Node) {
	c.checkName(n.Name)
	if n.Limit == (supervisor.Limit{}) {
		n.Limit = supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin)
	}
	c.checkLimit(n.Limit, "within")
}

func (c checker) checkAgent(g *Agent) {
	c.checkName(g.Name)
	c.checkAide(g)
	c.checkEnv(g.Env)
	for _, f := range []struct{ field, path string }{{"dir", g.Dir}, {"stdin", g.Stdin}} {
		if strings.ContainsRune(f.path, 0) {
			c.problem([]string{f.field}, "", "%s contains a zero byte, expected a path", f.field)
		}
	}
	if g.Terminal && g.Runtime == Proc && g.Stdin != "" {
		c.problem([]string{"stdin"}, "remove stdin or terminal", "stdin is a file, expected none with a terminal")
	}
	c.checkFiles("files", g.Files)
	c.checkFiles("env_file", g.EnvFiles)
	g.Terminal = g.Terminal || g.Runtime == Tmux
	c.checkLimits(g.Limits)
	c.checkUser(g)
	c.checkPaths(g)
	c.checkPlacement(&g.Placement)
	c.checkBackoff(g.Backoff)
	if g.Limit != (supervisor.Limit{}) {
		c.checkLimit(g.Limit, "restart_window")
	}
	c.checkShutdown(&g.Shutdown)
	c.checkReady(&g.Ready)
	if g.Watchdog != 0 && g.Watchdog < MinWatchdog {
		c.problem([]string{"watchdog"}, "", "watchdog is %v, expected at least %v", g.Watchdog, MinWatchdog)
	}
	g.Notify = g.Notify || g.Ready.Notify || g.Watchdog > 0
	c.checkLiveness(g)
	for _, h := range g.Hooks.Named() {
		c.checkHook(h.Hook, h.Name)
	}
	c.checkBeliefs(g.Beliefs)
	c.checkPool(g)
}

func (c checker) checkName(name string) {
	if wrong := CheckName(name); wrong != "" {
		c.problem([]string{"name"}, "", "%s", wrong)
	}
}

func (c checker) checkCommand(command []string, path ...string) {
	if len(command) == 0 {
		c.problem(path, "", "the command is missing, expected a program and its arguments")
		return
	}
	if command[0] == "" {
		c.problem(path, "", "the command is empty, expected a program and its arguments")
	}
	for _, arg := range command {
		if strings.ContainsRune(arg, 0) {
			c.problem(path, "", "the command contains a zero byte, which no program can be given")
		}
		if len(arg) > MaxVariable {
			c.problem(path, "put it into a file", "the command has an argument of %d bytes, expected at most %d",
				len(arg), MaxVariable)
		}
	}
}

func (c checker) checkEnv(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at, value := []string{"env", name}, env[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			c.problem(at, "", "%s cannot name a variable, expected one without \"=\" and zero bytes", Quote(name))
		case strings.HasPrefix(name, "COPPICE_"):
			c.problem(at, "", "the variable %s is set by Coppice itself, expected another name", Quote(name))
		case strings.ContainsRune(value, 0):
			c.problem(at, "", "the variable %s contains a zero byte, which no program can be given", Quote(name))
		case len(name)+1+len(value) > MaxVariable:
			c.problem(at, "put it into a file", "the variable %s has %d bytes, expected at most %d", Quote(name),
				len(value), MaxVariable-len(name)-1)
		}
	}
}

func (c checker) checkLimit(l supervisor.Limit, window string) {
	if l.Max < 0 && l.Max != supervisor.Unlimited || l.Max > MaxRestarts {
		c.problem([]string{"max_restarts"}, "", "max_restarts is %d, expected 0 to %d", l.Max, MaxRestarts)
	}
	c.checkTime(l.Within, window)
	if l.OnLimit != supervisor.Quarantine {
		return
	}
	// A quarantine ends when starts leave the window, which can never happen with these values.
	if l.Max == 0 {
		c.problem([]string{"max_restarts"}, `write "unlimited" for no limit, or restart = "never" for no restart`,
			"max_restarts is 0, expected at least 1 where the limit quarantines: the first start counts, too")
	}
	if l.Within == 0 && l.Max > 0 {
		c.problem([]string{window}, "", "a limit that quarantines without %s never ends, expected a time", window)
	}
}

// checkSignificant checks the conditions of OTP on a significant child: it can end on its
// own, and its supervisor has an auto_shutdown that depends on it.
func (c checker) checkSignificant(r supervisor.Restart, parent supervisor.AutoShutdown) {
	switch {
	case r == supervisor.Permanent:
		c.problem([]string{"significant"}, `set restart = "on-failure" or "never"`,
			`significant with restart = "always", expected a child that can end on its own`)
	case parent != supervisor.AnySignificant && parent != supervisor.AllSignificant:
		c.problem([]string{"significant"}, `set auto_shutdown = "any_significant" there`,
			"significant in a supervisor without auto_shutdown, expected one with it")
	}
}

func (c checker) checkBackoff(b supervisor.Backoff) {
	c.checkTime(b.Base, "backoff", "base")
	c.checkTime(b.Cap, "backoff", "cap")
	if b.Base > 0 && b.Cap > 0 && b.Base > b.Cap {
		c.problem([]string{"backoff", "base"}, "", "base %v is above cap %v, expected at most that", b.Base, b.Cap)
	}
}

func (c checker) checkShutdown(s *Shutdown) {
	s.Signal, s.Grace = cmp.Or(s.Signal, DefaultSignal), cmp.Or(s.Grace, supervisor.DefaultShutdown)
	c.checkSignal(&s.Signal, "shutdown")
	c.checkTime(s.Grace, "shutdown", "grace")
}

// checkSignal checks the signal of a table and normalizes it.
func (c checker) checkSignal(signal *string, table string) {
	if name, _, ok := ParseSignal(*signal); ok {
		*signal = name
		return
	}
	c.problem([]string{table, "signal"}, DidYouMean(*signal, SignalNames()...),
		"unknown signal %s, expected one of %s", Quote(*signal), strings.Join(SignalNames(), ", "))
}

// checkTime checks that a time is not negative. The last segment of path is its name.
func (c checker) checkTime(d time.Duration, path ...string) {
	if d < 0 {
		c.problem(path, "", "%s is negative, expected a time", path[len(path)-1])
	}
}

// count returns how many of some conditions hold.
func count(conditions ...bool) (n int) {
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}

func (c checker) checkReady(r *Ready) {
	n := count(r.Log != "", r.TCP != "", r.HTTP != "", len(r.Exec) > 0, r.Notify)
	if n > 1 {
		c.problem([]string{"ready"}, "", "ready has %d conditions, expected one of log, tcp, http, exec, notify", n)
	}
	c.checkTime(r.Timeout, "ready", "timeout")
	if n == 0 {
		return
	}
	r.Timeout = cmp.Or(r.Timeout, DefaultReadyTimeout)
	if _, err := regexp.Compile(r.Log); err != nil {
		what := "it is too large"
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			what = e.Code.String() + " at " + Quote(e.Expr)
		}
		c.problem([]string{"ready", "log"}, "the syntax is that of RE2; \\ escapes special characters",
			"log is not a regular expression: %s", what)
	}
	if r.TCP != "" {
		if _, port, err := net.SplitHostPort(r.TCP); err != nil || !isPort(port) {
			c.problem([]string{"ready", "tcp"}, "", "tcp is %s, expected host:port such as \"localhost:8080\"",
				Quote(r.TCP))
		}
	}
	if r.HTTP != "" {
		u, err := url.Parse(r.HTTP)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() != "" &&
			!isPort(u.Port()) {
			c.problem([]string{"ready", "http"}, "",
				"http is %s, expected a URL such as \"http://localhost:8080/health\"", Quote(r.HTTP))
		}
	}
	if len(r.Exec) > 0 {
		c.checkCommand(r.Exec, "ready", "exec")
	}
}

func (c checker) checkLiveness(g *Agent) {
	c.checkTime(g.HeartbeatTimeout, "heartbeat_timeout")
	c.checkTime(g.ProgressTimeout, "progress_timeout")
	for n, name := range g.ProcessNames {
		if name == "" || len(name) > MaxName || strings.ContainsAny(name, "/\x00") {
			c.problem([]string{"process_names", strconv.Itoa(n)}, "",
				"%s is not the name of a program, expected the last segment of its path", Quote(name))
		}
	}
	c.checkTime(g.IdleTimeout, "idle_timeout")
	n := &g.Nudge
	if set := count(n.Type, n.Signal != "", len(n.Command) > 0); set > 1 {
		c.problem([]string{"nudge"}, "", "nudge has %d ways, expected one of type, signal, command", set)
	}
	if n.Type && !g.Terminal {
		c.problem([]string{"nudge", "type"}, `set terminal = true, or nudge it with signal or command`,
			"type without a terminal, expected one to type into")
	}
	if n.Signal != "" {
		c.checkSignal(&n.Signal, "nudge")
		if n.Signal == "KILL" {
			c.problem([]string{"nudge", "signal"}, "", "signal is KILL, expected one that an agent can handle")
		}
	}
	if len(n.Command) > 0 {
		c.checkCommand(n.Command, "nudge", "command")
	}
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// checkAide checks the command of an agent, or its Aidefile.
func (c checker) checkAide(g *Agent) {
	if g.Aide == nil {
		c.checkCommand(g.Command, "command")
		return
	}
	if len(g.Command) > 0 {
		c.problem([]string{"command"}, "remove one of the two", "a command and an %s, expected one of them",
			aidefile.FileName)
	}
	c.checkCommand(g.Aide.Command, "aidefile")
	if g.Terminal || g.Runtime != Proc || g.Pool != nil {
		c.problem([]string{"aidefile"}, "", "an agent of an %s in a terminal, in tmux or in a "+
			"pool, expected a plain one", aidefile.FileName)
	}
	g.Notify = true // its runs report their status
}
