package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

// base is a valid file of three lines. The cases append invalid lines.
const base = "[[agent]]\nname = \"a\"\ncommand = \"sleep 1\"\n"

// Each line of want is an error without the prefix "f.toml:".
var badInput = []struct{ name, text, want string }{
	// The file as a whole.
	{"empty", "", "1:1: nothing to run, expected at least one agent; `coppice init` writes an example"},
	{"only a comment", "# nothing\n", "1:1: nothing to run, expected at least one agent; `coppice init` writes an example"},
	{"not UTF-8", base + "dir = \"ä\xffx\"\n", "4:9: the byte 0xff is not UTF-8; save it as UTF-8"},
	{"cut in a character", base + "dir = \"\xc3", "4:8: the byte 0xc3 is not UTF-8; save it as UTF-8"},
	{"UTF-16", "\xff\xfe[\x00", "1:1: the file is UTF-16, expected UTF-8; save it as UTF-8"},
	{"zero byte", base + "dir = \"\x00\"\n", "4:8: a zero byte, expected text; remove it"},
	{"too large", strings.Repeat("#", toml.MaxFile+1), "1:1: the file has 1048577 bytes, expected at most 1048576; split the fleet into several projects"},
	{"byte order mark and CRLF", "\xef\xbb\xbfx = 1\r\n" + base + "comand = 1\r\n", `
		1:1: unknown key "x" in the file; docs/configuration.md lists all keys
		5:1: unknown key "comand" in [[agent]]; did you mean "command"?`},
	{"not TOML", "[agent", "1:6: not TOML: expected ']' to close table name"},
	{"text without quotes", base + "restart = always\n", "4:11: not TOML: unexpected character U+0061 'a' at start of value; text needs quotes"},
	{"string without end", base + "dir = \"x\n", "4:9: not TOML: the string is not closed on its line; write the missing quote; text of several lines stands between three quotes"},
	{"number out of range", base + "max_restarts = 99999999999999999999\n", "4:16: not TOML: decimal number is too large to fit in a 64-bit signed integer"},
	{"nested without end", "a = " + strings.Repeat("[", 20000), "1:10005: not TOML: arrays and inline tables are nested more than the maximum of 10000 levels deep"},
	{"doubled key", base + "dir = 1\nname = \"b\"\n", "5:1: the key name is there twice, first in line 2, expected once; remove one of the two"},
	{"bare key", base + "env = { Ä = \"1\" }\n", "4:9: not TOML: invalid character at start of key: U+00C4 'Ä'; quote keys of other letters than A to Z"},
	{"doubled key in a line", base + "env = { \"Ä\" = \"1\", \"Ä\" = \"2\" }\n", `4:20: the key "Ä" is there twice, first in line 4, expected once; remove one of the two`},
	{"doubled table", base + "[project]\n[project]\n", "5:2: not TOML: table project already exists"},
	{"crowded table", base + "[agent.env]\n" + configtest.Variables(1001), "1005:1: a table of more than 1000 keys, expected at most that"},

	// Command lines of language models.
	{"an unknown command line", base + "cli = \"claud\"\n", `4:7: cli: unknown command line "claud", expected one of claude, codex, gemini, opencode, copilot, plain; did you mean "claude"?`},
	{"the command for its name", base + "cli = \"codex exec\"\n", `4:7: cli: unknown command line "codex exec", expected one of claude, codex, gemini, opencode, copilot, plain; write "codex"`},
	{"a list of command lines", base + "cli = [\"claude\"]\n", "4:7: cli is an array, expected a string, the name of a command line"},
	{"a command line and an Aidefile", base + "[[agent]]\nname = \"b\"\ncli = \"codex\"\naidefile = \"a\"\n", "6:1: cli and aidefile, expected one of the two; set it in the Aidefile, before its tables, or in the table [aide] of this file"},

	// Unknown keys.
	{"near", base + "comand = 1\nmax-restart = 1\nEnv = {}\ntcp = 1\n", `
		4:1: unknown key "comand" in [[agent]]; did you mean "command"?
		5:1: unknown key "max-restart" in [[agent]]; did you mean "max_restarts"?
		6:1: unknown key "Env" in [[agent]]; did you mean "env"?
		7:1: unknown key "tcp" in [[agent]]; it belongs in [agent.ready]`},
	{"words of others", base + "cwd = \"/\"\nwithin = \"1s\"\nstrategy = \"x\"\n", `
		4:1: unknown key "cwd" in [[agent]]; did you mean "dir"?
		5:1: unknown key "within" in [[agent]]; did you mean "restart_window"?
		6:1: unknown key "strategy" in [[agent]]; it belongs in [supervision] or [[supervisor]]`},
	{"far", base + "zzz = 1\n", `4:1: unknown key "zzz" in [[agent]]; docs/configuration.md lists all keys`},
	{"below", base + "ready.loog = 1\nshutdown = { sgnal = 1 }\n[agent.backoff]\nbas = 1\n", `
		4:7: unknown key "loog" in [agent.ready]; did you mean "log"?
		5:14: unknown key "sgnal" in [agent.shutdown]; did you mean "signal"?
		7:1: unknown key "bas" in [agent.backoff]; did you mean "base"?`},
	{"key without table", "name = \"x\"\n" + base, `1:1: unknown key "name" in the file; it belongs in [project] or [[supervisor]] or [[agent]] or [[order]] or [[quota]] or [[budget]] or [[service]] or [[notify]] or [[patches.agent]]`},
	{"table", "[projet]\n" + base, `1:2: unknown table "projet" in the file; did you mean "project"?`},
	{"plural", "[agents.a]\ncommand = \"x\"\n", `1:2: unknown table "agents" in the file; did you mean "agent"?`},
	{"hook without command", base + "on_waking = { timeout = \"1s\" }\n", `4:13: [agent.on_waking] without command, expected one (string or array of strings)`},
	{"hook is a number", base + "on_error = 3\n", `4:12: on_error is an integer, expected a string or an array of strings; write "3"`},
	{"hook without a word", base + "on_start = [\"\"]\n", `4:12: the command is empty, expected a program and its arguments`},
	{"hook with another key", base + "on_resting = { command = \"a\", after = 1 }\n", `4:31: unknown key "after" in [agent.on_resting]; expected one of command, timeout`},
	{"hostile key", base + "\"\\u001b[2J\" = 1\n", `4:1: unknown key "\x1b[2J" in [[agent]]; docs/configuration.md lists all keys`},

	// Wrong types.
	{"tables", "agent = 1\nproject = []\nsupervision = \"x\"\nsupervisor = [1]\n", `
		1:9: agent is an integer, expected an array of tables
		2:11: project is an array, expected a table; write [project]
		3:15: supervision is a string, expected a table
		4:15: an element of supervisor is an integer, expected a table`},
	{"single table", "[agent]\nname = \"a\"\n", "1:2: agent is a single table, expected an array of tables; write [[agent]]"},
	{"agent", "[[agent]]\nname = 1\ncommand = 1\ndir = 1979-05-27\nenv = [1]\nstdin = true\nrestart = 1\nbackoff = 5\nmax_restarts = 1.5\n" +
		"restart_window = []\non_limit = {}\nshutdown = \"TERM\"\nready = true\nsignificant = \"true\"\n", `
		2:8: name is an integer, expected a string; write "1"
		3:11: command is an integer, expected a string or an array of strings; write "1"
		4:7: dir is a date or time, expected a path
		5:7: env is an array, expected a table of strings
		6:9: stdin is a boolean, expected "null" or a path
		7:11: restart is an integer, expected one of always, on-failure, never
		8:11: backoff is an integer, expected one of none, fixed, linear, exponential
		9:16: max_restarts is a float, expected an integer from 0 to 1000000 or "unlimited"
		10:18: restart_window is an array, expected a duration such as "10s" or "1h30m"
		11:12: on_limit is a table, expected one of escalate, quarantine, give_up, pause
		12:12: shutdown is a string, expected a table
		13:9: ready is a boolean, expected a table
		14:15: significant is a string, expected true or false; write true without quotes`},
	{"elements", base + "env = { A = 1, B = [] }\nready.exec = [\"x\", 1]\n", `
		4:13: A is an integer, expected a string; write "1"
		4:20: B is an array, expected a string
		5:20: an element of exec is an integer, expected a string; write "1"`},
	{"children", base + "[[supervisor]]\nname = \"s\"\nchildren = \"a\"\n[[supervisor]]\nname = \"t\"\nchildren = [\n  \"a\",\n  1,\n]\n", `
		6:12: children is a string, expected an array of names
		11:3: an element of children is an integer, expected a string; write "1"`},

	// Pools.
	{"pool", base + "[agent.pool]\nmin = -1\nmax = 1001\ncheck = \"\"\ndrain_timeout = \"0s\"\ncheck_timeout = 30\non_boot = {}\nnamepool = 3\nscale_check = 1\n", `
		5:7: min is -1, expected an integer from 0 to 1000
		6:7: max is 1001, expected an integer from 0 to 1000 or "unlimited"
		7:9: check is empty, expected a string or an array of strings; remove the key if nothing is meant
		8:17: drain_timeout is "0s", expected a duration above zero
		9:17: check_timeout is a number without a unit, expected a duration such as "10s" or "1h30m"; write "30s" if seconds are meant
		10:11: [agent.pool.on_boot] without command, expected one (string or array of strings)
		11:12: namepool is an integer, expected the path of a file or an array of names
		12:1: unknown key "scale_check" in [agent.pool]; did you mean "check"?`},
	{"pool without room", base + "pool = { min = 3, max = 2 }\n", "4:16: min is 3, above max, which is 2; expected at most that"},
	{"pool with few names", base + "pool = { max = 2, namepool = [\"b\"] }\n", "4:16: max is 2, expected at most 1, the number of names; add names to the namepool"},
	{"pool with fewer names", base + "pool = { min = 2, namepool = [\"b\"] }\n", "4:16: min is 2, expected at most 1, the number of names; add names to the namepool"},
	{"pool with bad names", base + "pool = { namepool = [\"c\", \"-b\", \"c\"] }\n", `
		4:27: the name "-b" looks like a flag, expected one without "-" in front
		4:33: the name "c" is there twice, expected once; remove one of the two`},
	{"pool without names", base + "pool = { namepool = [] }\n", "4:21: namepool is empty, expected at least one name"},
	{"pool with a long name", "[[agent]]\nname = \"" + strings.Repeat("x", 62) + "\"\ncommand = \"true\"\npool.max = 10\n",
		"2:8: the name \"" + strings.Repeat("x", 60) + "\"... is too long for a pool: its instance \"" + strings.Repeat("x", 60) + "\"... has 65 bytes, expected at most 64"},
	{"patient pool", base + "pool = { drain_timeout = \"200h\", check_timeout = \"200h\" }\n", `
		4:26: drain_timeout is 200h0m0s, expected at most 168h0m0s
		4:50: check_timeout is 200h0m0s, expected at most 168h0m0s`},
	{"significant pool", base + "restart = \"transient\"\nsignificant = true\npool = {}\n", `
		5:15: significant in a pool, expected none there: its instances come and go; remove it`},
	{"keys of a pool", base + "min = 1\ndrain_timeout = \"1m\"\non_death = \"true\"\nreplicas = 1\n", `
		4:1: unknown key "min" in [[agent]]; it belongs in [agent.pool]
		5:1: unknown key "drain_timeout" in [[agent]]; it belongs in [agent.pool]
		6:1: unknown key "on_death" in [[agent]]; it belongs in [agent.pool]
		7:1: unknown key "replicas" in [[agent]]; did you mean "pool"?`},

	// Missing and empty.
	{"missing", "[[agent]]\n\n[[supervisor]]\n", `
		1:3: [[agent]] without name, expected one (string)
		1:3: [[agent]] without command, expected one (string or array of strings)
		3:3: [[supervisor]] without name, expected one (string)
		3:3: [[supervisor]] without children, expected one (array of strings)`},
	{"blank", "[[agent]]\nname = \"\"\ncommand = \" \"\ndir = \"\"\nready = { exec = [] }\n", `
		2:8: name is empty, expected a string; remove the key if nothing is meant
		3:11: command is empty, expected a string or an array of strings; remove the key if nothing is meant
		4:7: dir is empty, expected a path; remove the key if nothing is meant
		5:18: exec is empty, expected a program and its arguments`},
	{"empty command", "[[agent]]\nname = \"a\"\ncommand = []\n[[agent]]\nname = \"b\"\ncommand = [\"\", \"x\"]\n", `
		3:11: command is empty, expected a program and its arguments
		6:11: the command is empty, expected a program and its arguments`},

	// Words, times and numbers.
	{"words", base + "restart = \"allways\"\nbackoff = \"expo\"\non_limit = \"stop\"\n", `
		4:11: restart is "allways", expected one of always, on-failure, never; did you mean "always"?
		5:11: backoff is "expo", expected one of none, fixed, linear, exponential; did you mean "exponential"?
		6:12: on_limit is "stop", expected one of escalate, quarantine, give_up, pause`},
	{"misspelled keys that must be there", "[[agent]]\nname = \"a\"\ncomand = \"x\"\n[[agent]]\nnmae = \"b\"\ncommand = \"x\"\n[[order]]\nname = \"o\"\ncommand = \"x\"\ngate = \"manual\"\n", `
		3:1: unknown key "comand" in [[agent]]; did you mean "command"?
		5:1: unknown key "nmae" in [[agent]]; did you mean "name"?
		9:1: unknown key "command" in [[order]]; did you mean "exec"?`},
	{"a key that is missing next to another that is unknown", "[[agent]]\nname = \"a\"\nshutdwon = {}\n", `
		1:3: [[agent]] without command, expected one (string or array of strings)
		3:1: unknown key "shutdwon" in [[agent]]; did you mean "shutdown"?`},
	{"YAML", "# agents\nagents:\n  - name: a\n", "2:7: not TOML: expected '=' after key; it looks like YAML, and the files of Coppice are TOML; `coppice init` writes an example"},
	{"YAML with a value", "version: \"3\"\n", "1:8: not TOML: expected '=' after key; it looks like YAML, and the files of Coppice are TOML; `coppice init` writes an example"},
	{"YAML below TOML", base + "dir: x\n", "4:4: not TOML: expected '=' after key"},
	{"words of others", agents("restart", "unless-stopped", "unless_stopped", "no", "on_failure", "on-abnormal", "permanet", "temporery", "sometimes"), `
		3:11: restart is "unless-stopped", expected one of always, on-failure, never; did you mean "always"? it does not restart an agent that was stopped manually
		7:11: restart is "unless_stopped", expected one of always, on-failure, never; did you mean "always"? it does not restart an agent that was stopped manually
		11:11: restart is "no", expected one of always, on-failure, never; did you mean "never"?
		15:11: restart is "on_failure", expected one of always, on-failure, never; did you mean "on-failure"?
		19:11: restart is "on-abnormal", expected one of always, on-failure, never; did you mean "on-failure"?
		23:11: restart is "permanet", expected one of always, on-failure, never; did you mean "always"?
		27:11: restart is "temporery", expected one of always, on-failure, never; did you mean "never"?
		31:11: restart is "sometimes", expected one of always, on-failure, never`},
	{"watchdog", base + "watchdog = \"500ms\"\nnotify = \"yes\"\n", `
		4:12: watchdog is 500ms, expected at least 1s
		5:10: notify is a string, expected true or false`},
	{"strategy", base + "[supervision]\nstrategy = \"one-for-some\"\nauto_shutdown = \"x\"\n", `
		5:12: strategy is "one-for-some", expected one of one_for_one, one_for_all, rest_for_one, simple_one_for_one; did you mean "one_for_one"?
		6:17: auto_shutdown is "x", expected one of never, any_significant, all_significant, when_done`},
	{"durations", base + "restart_window = 60\nshutdown = { grace = \"10\" }\nbackoff = { base = \"-1s\", cap = \"1 day\", stable_after = \"0s\" }\nready = { log = \"x\", timeout = 1.5 }\n", `
		4:18: restart_window is a number without a unit, expected a duration such as "10s" or "1h30m"; write "60s" if seconds are meant
		5:22: grace is "10", a number without a unit, expected a duration such as "10s" or "1h30m"; write "10s" if seconds are meant
		6:20: base is "-1s", negative, expected a duration such as "10s" or "1h30m"
		6:33: cap is "1 day", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)
		6:57: stable_after is "0s", expected a duration above zero
		7:32: timeout is a number without a unit, expected a duration such as "10s" or "1h30m"; write "1.5s" if seconds are meant`},
	{"numbers", base + "max_restarts = -1\n[supervision]\nmax_restarts = 1000001\nwithin_seconds = 0\n[[supervisor]]\nname = \"s\"\nchildren = []\nmax_restarts = \"many\"\nwithin = \"-5s\"\n", `
		4:16: max_restarts is -1, expected an integer from 0 to 1000000 or "unlimited"
		6:16: max_restarts is 1000001, expected an integer from 0 to 1000000 or "unlimited"
		7:18: within_seconds is 0, expected an integer of at least 1, in seconds
		11:16: max_restarts is "many", expected an integer from 0 to 1000000 or "unlimited"
		12:10: within is "-5s", negative, expected a duration such as "10s" or "1h30m"`},
	{"seconds as text", base + "[supervision]\nwithin_seconds = \"60s\"\nwithin = \"60s\"\n", `
		5:18: within_seconds is a string, expected an integer of at least 1, in seconds
		6:1: unknown key "within" in [supervision]; did you mean "within_seconds"?`},
	{"where it runs", base + "runtime = \"tmx\"\nterminal = \"true\"\nlimits = 1\n[[agent]]\nname = \"b\"\ncommand = \"x\"\nterminal = false\nruntime = \"tmux\"\n" +
		"[[agent]]\nname = \"c\"\ncommand = \"x\"\ntty = true\nlimits = { nproc = 1, cpus = 2 }\nruntime = \"docker\"\n[supervision]\npersist = \"no\"\n", `
		4:11: runtime is "tmx", expected one of proc, tmux; did you mean "tmux"?
		5:12: terminal is a string, expected true or false; write true without quotes
		6:10: limits is an integer, expected a table
		10:12: terminal is false, expected true where runtime is tmux: there is always one; remove it
		15:1: unknown key "tty" in [[agent]]; did you mean "terminal"?
		16:12: unknown key "nproc" in [agent.limits]; did you mean "processes"?
		16:23: unknown key "cpus" in [agent.limits]; did you mean "cpu"?
		17:11: runtime is "docker", expected one of proc, tmux
		19:11: persist is a string, expected true or false`},
	{"daemon", base + "[daemon]\npatrol_interval = \"0s\"\nmax_restarts = -1\nrestart_window = \"-1h\"\nshutdown_timeout = \"-5s\"\ndrift_drain_timeout = \"0d\"\nmax_parallel_starts = 0\n" +
		"agents_per_shim = 257\nmax_claims = 1001\n" +
		"gc_interval = \"7 days\"\nwisp_ttl = 24\nttl = \"106752d\"\nwisp_gc_interval = \"1h\"\npatrol_intervall = 1\n", `
		5:19: patrol_interval is "0s", expected a duration above zero
		6:16: max_restarts is -1, expected an integer from 0 to 1000000 or "unlimited"
		7:18: restart_window is "-1h", negative, expected a duration such as "10s" or "1h30m"
		8:20: shutdown_timeout is "-5s", negative, expected a duration such as "10s" or "1h30m"
		9:23: drift_drain_timeout is "0d", expected a duration above zero
		10:23: max_parallel_starts is 0, expected an integer from 1 to 1000
		11:19: agents_per_shim is 257, expected an integer from 1 to 256
		12:14: max_claims is 1001, expected an integer from 0 to 1000
		13:15: gc_interval is "7 days", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)
		14:1: wisp_ttl and ttl mean the same, expected one of them; remove one of the two
		15:7: ttl is "106752d", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)
		16:1: wisp_gc_interval and gc_interval mean the same, expected one of them; remove one of the two
		17:1: unknown key "patrol_intervall" in [daemon]; did you mean "patrol_interval"?`},
	{"patrol at once", base + "suspended = \"true\"\n[daemon]\n" +
		"patrol_interval = \"1ns\"\nprogram_memory = \"1MiB\"\n", `
		4:13: suspended is a string, expected true or false; write true without quotes
		6:19: patrol_interval is 1ns, expected at least 10ms
		7:18: program_memory is 1MiB, expected at least 64 MiB`},
	{"two inputs", base + "terminal = true\nstdin = \"x\"\n", "5:9: stdin is a file, expected none with a terminal; remove stdin or terminal"},
	{"limits", base + limits(`memory = "512"`, `memory = "1 GB/s"`, `memory = "-1M"`, `memory = "99999999999T"`, `memory = 0`, `memory = 512`, `memory = 1.5`, `memory = "0.1b"`,
		`cpu = 0`, `cpu = -0.5`, `cpu = nan`, `cpu = inf`, `cpu = 0.001`, `cpu = "2"`, `cpu = "500m"`, `cpu = true`, `open_files = 0`, `open_files = 1.5`, `processes = 2_000_000_000`), `
		7:17: memory is "512", a number without a unit, expected a size such as "512MiB" or a number of bytes; write "512MiB" if mebibytes are meant
		11:17: memory is "1 GB/s", not a size, expected a size such as "512MiB" or a number of bytes; the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)
		15:17: memory is "-1M", not a size, expected a size such as "512MiB" or a number of bytes; the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)
		19:17: memory is "99999999999T", more than there can be, expected a size such as "512MiB" or a number of bytes; the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)
		23:17: memory is 0, expected a size such as "512MiB" or a number of bytes
		27:17: memory is 512 bytes, expected at least 1048576 (1 MiB); write "512MiB" for 512 mebibytes
		31:17: memory is a float, expected a size such as "512MiB" or a number of bytes
		35:17: memory is "0.1b", less than a byte, expected a size such as "512MiB" or a number of bytes; the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)
		39:14: cpu is 0, expected a number of cores such as 0.5 or 2
		43:14: cpu is -0.5, expected a number of cores such as 0.5 or 2
		47:14: cpu is nan, expected a number of cores such as 0.5 or 2
		51:14: cpu is +Inf, expected a number of cores from 0.01 to 4096
		55:14: cpu is 0.001, expected a number of cores from 0.01 to 4096
		59:14: cpu is a string, expected a number of cores such as 0.5 or 2; write 2 without quotes
		63:14: cpu is a string, expected a number of cores such as 0.5 or 2
		67:14: cpu is a boolean, expected a number of cores such as 0.5 or 2
		71:21: open_files is 0, expected an integer from 1 to 1073741824
		75:21: open_files is a float, expected an integer from 1 to 1073741824
		79:20: processes is 2_000_000_000, expected an integer from 1 to 1073741824`},
	{"endless quarantine", base + "max_restarts = 0\n", `4:16: max_restarts is 0, expected at least 1 where the limit quarantines: the first start counts, too; write "unlimited" for no limit, or restart = "never" for no restart`},
	{"base above cap", base + "backoff = { base = \"1m\", cap = \"1s\" }\n", `4:20: base 1m0s is above cap 1s, expected at most that`},

	// Values that only agents interpret.
	{"signal", base + "shutdown.signal = \"TREM\"\n", `4:19: unknown signal "TREM", expected one of TERM, INT, HUP, QUIT, KILL, USR1, USR2, ABRT, ALRM, PIPE, WINCH; did you mean "TERM"?`},
	{"regexp", base + "ready.log = \"(\"\n", `4:13: log is not a regular expression: missing closing ) at "("; the syntax is that of RE2; \ escapes special characters`},
	{"address", base + "ready.tcp = \"localhost\"\n", `4:13: tcp is "localhost", expected host:port such as "localhost:8080"`},
	{"port", base + "ready.tcp = \"localhost:65536\"\n", `4:13: tcp is "localhost:65536", expected host:port such as "localhost:8080"`},
	{"URL", base + "ready.http = \"localhost:8080\"\n", `4:14: http is "localhost:8080", expected a URL such as "http://localhost:8080/health"`},
	{"URL port", base + "ready.http = \"http://x:0/\"\n", `4:14: http is "http://x:0/", expected a URL such as "http://localhost:8080/health"`},
	{"two conditions", base + "ready = { log = \"x\", notify = true }\n", "4:9: ready has 2 conditions, expected one of log, tcp, http, exec, notify"},
	{"liveness", base + "heartbeat_timeout = 60\nprogress_timeout = \"soon\"\nnudge = \"USR1\"\n", `
		4:21: heartbeat_timeout is a number without a unit, expected a duration such as "10s" or "1h30m"; write "60s" if seconds are meant
		5:20: progress_timeout is "soon", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)
		6:9: nudge is a string, expected a table`},
	{"two ways to nudge", base + "nudge = { type = true, signal = \"USR1\" }\nterminal = true\n", "4:9: nudge has 2 ways, expected one of type, signal, command"},
	{"no way to nudge", base + "nudge = { type = false }\n", "4:9: nudge is empty, expected one of type, signal, command"},
	{"nothing to type into", base + "nudge = { type = true }\n", "4:18: type without a terminal, expected one to type into; set terminal = true, or nudge it with signal or command"},
	{"signals to nudge", base + "nudge = { signal = \"USR3\" }\n[[agent]]\nname = \"b\"\ncommand = \"sleep 1\"\nnudge = { signal = \"sigkill\" }\n", `
		4:20: unknown signal "USR3", expected one of TERM, INT, HUP, QUIT, KILL, USR1, USR2, ABRT, ALRM, PIPE, WINCH; did you mean "USR1"?
		8:20: signal is KILL, expected one that an agent can handle`},
	{"command to nudge", base + "nudge = { comand = \"x\" }\n[[agent]]\nname = \"b\"\ncommand = \"sleep 1\"\nnudge = { command = [] }\n", `
		4:11: unknown key "comand" in [agent.nudge]; did you mean "command"?
		8:21: command is empty, expected a program and its arguments`},
	{"no condition", base + "ready = { timeout = \"5s\" }\n", "4:9: ready has no condition, expected one of log, tcp, http, exec, notify"},
	{"environment", base + "env = { \"B=C\" = \"x\", COPPICE_X = \"1\", Z = \"a\\u0000\" }\n", `
		4:17: "B=C" cannot name a variable, expected one without "=" and zero bytes
		4:34: the variable "COPPICE_X" is set by Coppice itself, expected another name
		4:43: the variable "Z" contains a zero byte, which no program can be given`},
	{"zero bytes", "[[agent]]\nname = \"a\"\ncommand = [\"x\\u0000\"]\ndir = \"\\u0000\"\nstdin = \"\\u0000\"\n", `
		3:11: the command contains a zero byte, which no program can be given
		4:7: dir contains a zero byte, expected a path
		5:9: stdin contains a zero byte, expected a path`},
	{"long argument", base + "env.A = \"" + strings.Repeat("x", 1<<17) + "\"\n", `4:9: the variable "A" has 131072 bytes, expected at most 131069; put it into a file`},
	{"significant", base + "significant = true\n[[agent]]\nname = \"b\"\ncommand = \"x\"\nsignificant = true\nrestart = \"never\"\n", `
		4:15: significant with restart = "always", expected a child that can end on its own; set restart = "on-failure" or "never"
		8:15: significant in a supervisor without auto_shutdown, expected one with it; set auto_shutdown = "any_significant" there`},

	// Names and the tree.
	{"names", "[[agent]]\nname = \"a/b\"\ncommand = \"x\"\n[[agent]]\nname = \"..\"\ncommand = \"x\"\n[[agent]]\nname = \"-x\"\ncommand = \"x\"\n" +
		"[[agent]]\nname = \"a\\u001b[2J\"\ncommand = \"x\"\n[[agent]]\nname = \" a\"\ncommand = \"x\"\n[project]\nname = \"" + strings.Repeat("ä", 33) + "\"\n", `
		2:8: the name "a/b" contains "/", expected one segment of a path
		5:8: the name ".." means a directory, expected another one
		8:8: the name "-x" looks like a flag, expected one without "-" in front
		11:8: the name "a\x1b[2J" contains the character U+001B, expected printable ones
		14:8: the name " a" begins or ends with a space, expected none there
		17:8: the name "ääääääääääääääääääääääääääääää"... has 66 bytes, expected at most 64`},
	{"doubled name", base + "[[supervisor]]\nname = \"s\"\nchildren = []\n" + base + "[[supervisor]]\nname = \"s\"\nchildren = []\n", `
		8:8: the name "a" is taken by agent number 1, expected another one (that is in line 2); names are unique in the whole file, supervisors and agents together
		11:8: the name "s" is taken by supervisor number 1, expected another one (that is in line 5); names are unique in the whole file, supervisors and agents together`},
	{"unknown child", base + "[[supervisor]]\nname = \"backend\"\nchildren = [\"bakend\", \"zzz\", \"web\"]\n[[agent]]\nname = \"wev\"\ncommand = \"x\"\n", `
		6:13: unknown child "bakend", expected the name of an agent or supervisor
		6:23: unknown child "zzz", expected the name of an agent or supervisor
		6:30: unknown child "web", expected the name of an agent or supervisor; did you mean "wev"?`},
	{"child twice", base + "[[supervisor]]\nname = \"s\"\nchildren = [\"a\", \"a\"]\n", `6:18: the child "a" is listed twice, expected once; remove one of the two`},
	{"two supervisors", base + "[[supervisor]]\nname = \"s\"\nchildren = [\"a\"]\n[[supervisor]]\nname = \"t\"\nchildren = [\"a\"]\n",
		`9:13: "a" is already a child of "s", expected one supervisor for each; remove it from one of the two`},
	{"cycle", base + nested("s t u s") + nested("v v"), `
		12:13: supervisors contain themselves ("s > t > u > s"), expected a tree; remove one of these children
		15:13: supervisors contain themselves ("v > v"), expected a tree; remove one of these children`},
	{"depth 9", base + nested("s2 s3 s4 s5 s6 s7 s8 s9 s10 a"), `24:13: supervisor "s9" is on level 9, counted from the root, expected at most 8; keep supervisors shallow; two or three levels do for most projects`},
	{"files", base + "files = [\"a\", \"\", \"./a\", \"\\u0000\"]\n", `
		4:15: the file has no name, expected a path
		4:19: the file "a" is listed twice, expected once; remove one of the two
		4:26: the file contains a zero byte, expected a path`},
	{"environment files", base + "env_file = [\"\", \"a\", \"./a\", 1]\n", `
		4:13: an element of env_file is empty, expected a path; remove the key if nothing is meant
		4:17: the file "a" is listed twice, expected once; remove one of the two
		4:29: an element of env_file is an integer, expected a path`},
	{"environment file", base + "env_files = 1\nenv_file = 1\n", `
		4:1: unknown key "env_files" in [[agent]]; did you mean "env_file"?
		5:12: env_file is an integer, expected a path or an array of paths`},
	{"logs", base + "logs = { size = 1, max_size = \"10\", keep = 0 }\n[logs]\nmax_size = 1000\nkeep = 1000\nmax_file = 3\n", `
		4:10: unknown key "size" in [agent.logs]; did you mean "max_size"?
		4:31: max_size is "10", a number without a unit, expected a size such as "512MiB" or a number of bytes; write "10MiB" if mebibytes are meant
		4:44: keep is 0, expected an integer from 1 to 100
		6:12: max_size is 1000, expected at least 1 KiB
		7:8: keep is 1000, expected an integer from 1 to 100
		8:1: unknown key "max_file" in [logs]; did you mean "keep"?`},
	{"file that is none", base + "files = [\"a\", 1]\n", `
		4:15: an element of files is an integer, expected a string; write "1"`},
	{"dependencies", base + "depends_on = \"b\"\n[[agent]]\nname = \"b\"\ncommand = \"x\"\ndepends_on = [\"b\", 1]\n", `
		4:14: depends_on is a string, expected an array of names
		8:20: an element of depends_on is an integer, expected a string; write "1"`},
	{"unknown dependency", base + "depends_on = [\n  \"bakend\",\n  \"zzz\"]\n[[supervisor]]\nname = \"backend\"\nchildren = []\nafter = 1\n", `
		5:3: unknown dependency "bakend", expected the name of an agent or supervisor; did you mean "backend"?
		6:3: unknown dependency "zzz", expected the name of an agent or supervisor
		10:1: unknown key "after" in [[supervisor]]; did you mean "depends_on"?`},
	{"no new privileges", base + "no_new_privileges = \"true\"\n", "4:21: no_new_privileges is a string, expected true or false; write true without quotes"},
	{"writable paths", base + "read_write_paths = \"work\"\nread_only_paths = [1]\nprotected_paths = []\n", `
		4:20: read_write_paths is a string, expected an array of paths
		5:20: an element of read_only_paths is an integer, expected a string; write "1"
		6:1: unknown key "protected_paths" in [[agent]]; did you mean "read_only_paths"?`},
	{"no writable paths", base + "read_write_paths = [\"a\", \"\", \"./a\", \"b\\u0000\", \"-\"]\n", `
		4:26: the file has no name, expected a path
		4:30: the file "a" is listed twice, expected once; remove one of the two
		4:37: the file contains a zero byte, expected a path
		4:48: the file has no name, expected a path`},
	{"exceptions from nothing", base + "read_only_paths = [\"a\"]\n", `
		4:19: read_only_paths without read_write_paths, expected both: they are exceptions from what is writable; add read_write_paths; ["/"] is everything`},
	{"writable paths in tmux", base + "read_write_paths = [\"a\"]\nruntime = \"tmux\"\n", `
		4:20: read_write_paths in tmux, expected the runtime proc: a tmux server runs commands without these limits; remove one of the two; terminal = true gives a terminal without tmux`},
	{"process names", base + "process_names = [\"node\", \"/bin/sh\", \"\"]\n", `
		4:26: "/bin/sh" is not the name of a program, expected the last segment of its path
		4:37: "" is not the name of a program, expected the last segment of its path`},
	{"kinds of placement", base + "node = 1\nlabels = [\"gpu\"]\nspread = [\"zone\"]\nmax_per_node = \"2\"\n", `
		4:8: node is an integer, expected a string; write "1"
		5:10: labels is an array, expected a table of strings such as { zone = "eu" }
		6:10: spread is an array, expected a string
		7:16: max_per_node is a string, expected an integer from 1 to 100000`},
	{"empty placement", base + "node = \"\"\nlabels.gpu = true\nspread = \" \"\nmax_per_node = 0\n", `
		4:8: node is empty, expected a string; remove the key if nothing is meant
		5:14: gpu is a boolean, expected a string; write "true"
		6:10: spread is empty, expected a string; remove the key if nothing is meant
		7:16: max_per_node is 0, expected an integer from 1 to 100000`},
	{"names of nodes", agents("node", "Web-1", "a b", "a..b", strings.Repeat("a", 64)), `
		3:8: the name of the node "Web-1" has capital letters; expected "web-1"
		7:8: the name of the node "a b" has other characters; expected lower-case letters, digits, "-" and "."
		11:8: the name of the node "a..b" has an empty part, or "-" at the end of one; expected a letter or digit at both ends of each part between dots
		15:8: the name of the node "` + strings.Repeat("a", 64) + `" has 64 bytes; expected at most 63`},
	{"bad labels", base + "max_per_node = -1\n[agent.labels]\n\"\" = \"x\"\n\"a=b\" = \"x\"\na = \"x/y\"\nb = \"\"\nc = 1\n", `
		4:16: max_per_node is -1, expected an integer from 1 to 100000
		6:6: label "": the name is empty
		7:9: label "a=b": expected letters, digits, "-", "_" and "."; in a name also "/"
		8:5: label a = "x/y": expected letters, digits, "-", "_" and "."; in a name also "/"
		10:5: c is an integer, expected a string; write "1"`},
	{"many labels", base + "max_per_node = 1_000_000\n[agent.labels]\n" + configtest.Variables(33), `
		4:16: max_per_node is 1_000_000, expected an integer from 1 to 100000
		5:8: 33 labels, expected at most 32, as many as a node has`},
	{"spread", agents("spread", "node", "a b"), `
		3:10: spread is "node", expected the name of a label; remove it: without spread, agents are spread over nodes
		7:10: spread: label "a b": expected letters, digits, "-", "_" and "."; in a name also "/"`},
	{"spread by one value", base + "labels = { zone = \"eu\" }\nspread = \"zone\"\n", `
		5:10: spread by the label zone, which is "eu" on all nodes with these labels, expected another one; remove one of the two`},
	{"no choice of nodes", base + "node = \"a\"\nlabels = { zone = \"eu\" }\nspread = \"rack\"\nmax_per_node = 2\nhost = \"b\"\n", `
		5:10: labels with node, expected one of the two: node leaves no choice; remove one of the two
		6:10: spread with node, expected one of the two: node leaves no choice; remove one of the two
		7:16: max_per_node with node, expected one of the two: node leaves no choice; remove one of the two
		8:1: unknown key "host" in [[agent]]; did you mean "node"?`},
	{"placement of a pool", base + "pool = { max = 3, spread = \"zone\" }\n", `
		4:19: unknown key "spread" in [agent.pool]; it belongs in [[agent]]`},
	{"circle", base + "depends_on = [\"s\"]\n[[supervisor]]\nname = \"s\"\nchildren = [\"b\"]\n[[agent]]\nname = \"b\"\ncommand = \"x\"\ndepends_on = [\"a\"]\n",
		`4:15: dependencies form a cycle ("a" depends on "s", which contains "b", which depends on "a"), expected an order; remove one of these dependencies`},
	{"pool", base + "[[supervisor]]\nname = \"s\"\nchildren = []\nstrategy = \"simple_one_for_one\"\n[supervision]\nstrategy = \"SimpleOneForOne\"\n", `
		7:12: simple_one_for_one is for pools whose instances a program adds, which a file cannot; expected one_for_one, one_for_all or rest_for_one; list each agent
		9:12: simple_one_for_one is for pools whose instances a program adds, which a file cannot; expected one_for_one, one_for_all or rest_for_one; list each agent`},
}

// limits returns agents of four lines, each with a limit in the last line.
func limits(all ...string) string {
	var b strings.Builder
	for i, l := range all {
		fmt.Fprintf(&b, "[[agent]]\nname = \"l%d\"\ncommand = \"x\"\nlimits.%s\n", i, l)
	}
	return b.String()
}

// nested returns supervisors of three lines, each of which contains the next.
func nested(names string) string {
	var b strings.Builder
	list := strings.Fields(names)
	for i, name := range list[:len(list)-1] {
		b.WriteString("[[supervisor]]\nname = \"" + name + "\"\nchildren = [\"" + list[i+1] + "\"]\n")
	}
	return b.String()
}

func TestBadInput(t *testing.T) {
	for _, tt := range badInput {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Parse("f.toml", []byte(tt.text))
			var errs toml.Errors
			if tree != nil || !errors.As(err, &errs) {
				t.Fatalf("got tree %v and error %v, want Errors", tree, err)
			}
			var got []string
			for _, e := range errs {
				got = append(got, strings.TrimPrefix(e.Error(), "f.toml:"))
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(tt.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// agents returns a file with one agent for each value of a key.
func agents(key string, values ...string) string {
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, "[[agent]]\ncommand = \"x\"\n%s = %q\nname = \"a%d\"\n", key, v, i)
	}
	return b.String()
}
