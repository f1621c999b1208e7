package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/grove"
)

// TestSchemaValid checks that the schema accepts what the reader accepts.
func TestSchemaValid(t *testing.T) {
	texts := []string{everything, Template, "", "[[patches.agent]]\nname = \"a\"\nshutdown.grace = \"1s\"\non_start = { timeout = \"1s\" }\ncommand_append = [\"x\"]\nenv_remove = [\"A\"]\nready.timeout = \"3s\"\n[[patches.supervisor]]\nname = \"s\"\nchildren_append = [\"a\"]\n"}
	for _, s := range sections() {
		if s.Example != "" {
			texts = append(texts, s.Example)
		}
	}
	file, err := os.ReadFile("../../examples/fleet/coppice.toml")
	if err != nil {
		t.Fatal(err)
	}
	s := configtest.Compiled(t, WriteSchema)
	for _, text := range append(texts, string(file)) {
		if v, ok := configtest.InJSON(t, text); !ok || s.Validate(v) != nil {
			t.Errorf("%v\n%s", s.Validate(v), text)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		text := print(someTree(r))
		if v, ok := configtest.InJSON(t, text); !ok || s.Validate(v) != nil {
			r.Fatalf("%v\n%s", s.Validate(v), text)
		}
	})
}

// TestSchemaInvalid checks that the schema rejects values that are invalid on their own.
func TestSchemaInvalid(t *testing.T) {
	s := configtest.Compiled(t, WriteSchema)
	for _, text := range []string{
		base + "comand = 1\n", "x = 1\n", "agent = 1\n", "[agent]\nname = \"a\"\n", "[[agent]]\nname = \"a\"\n", "[[agent]]\ncommand = \"a\"\n", base + "name2 = 1\n",
		base + "restart = \"sometimes\"\n", base + "backoff = \"cubic\"\n", base + "backoff.base = 1\n", base + "backoff.base = \"1\"\n", base + "backoff.base = \"0s\"\n",
		base + "shutdown.grace = \"-1s\"\n", base + "shutdown = { sgnal = \"INT\" }\n", base + "env = { A = 1 }\n", base + "env = []\n", base + "limits.memory = \"1 GB/s\"\n",
		base + "limits.memory = 0\n", base + "limits.cpu = -1\n", base + "limits.cpu = \"2\"\n", base + "ready.tcp = 80\n", base + "command_append = []\n", base + "terminal = \"true\"\n",
		base + "dir = \"\"\n", base + "on_start = { timeout = \"1s\" }\n", base + "on_start = 1\n", base + "pool.max = \"many\"\n", base + "pool.on_death = { cmd = \"x\" }\n", base + "beliefs.x = { typ = \"int\" }\n",
		base + "pool.min = -1\n", base + "pool.max = -2\n", base + "max_restarts = -1\n", base + "limits.open_files = -1\n", base + "ready.exec = []\n", base + "on_start = []\n", base + "pool.namepool = []\n",
		"[[agent]]\nname = \"a\"\ncommand = []\n", "[[order]]\nname = \"o\"\nexec = \"x\"\nretries = -1\n", "[[order]]\nname = \"o\"\nexec = \"x\"\ngate = []\n", "[[order]]\nname = \"o\"\nexec = \"x\"\nenabled = \"no\"\n",
		base + "max_restarts = \"never\"\n", base + "suspended = 1\n", base + "nudge = \"x\"\n", base + "depends_on = \"a\"\n",
		"[daemon]\npatrol_interval = \"0s\"\n", "[daemon]\npatrol_interval = \"1 day\"\n", "[daemon]\nshutdown_timeout = \"-1s\"\n", "[daemon]\nttl = 7\n", "[daemon]\nx = 1\n", "[[daemon]]\n",
		"[project]\nname = 1\n", "[supervision]\nwithin_seconds = \"60s\"\n", "[supervision]\nstrategy = \"two_for_one\"\n", "[persistence]\nbackend = \"etcd\"\n", "include = \"x\"\n", "include = [1]\n",
		"[[supervisor]]\nname = \"s\"\n", "[[supervisor]]\nname = \"s\"\nchildren = \"a\"\n", "[[patches.agent]]\n", "[[patches.agent]]\nname = \"a\"\nx = 1\n", "[[patches.agent]]\nname = \"a\"\nname_append = []\n",
		"[[patches.agent]]\nname = \"a\"\ncommand_append = \"x\"\n", "[[patches.rig]]\n", "[patches.agent]\nname = \"a\"\n",
	} {
		v, ok := configtest.InJSON(t, text)
		if !ok || s.Validate(v) == nil {
			t.Errorf("valid:\n%s", text)
		}
		if strings.Contains(text, "include") {
			continue // Parse does not check that
		}
		if _, err := Parse("/x/f.toml", []byte(text)); err == nil {
			t.Errorf("the reader takes\n%s", text)
		}
	}
}

// FuzzSchema checks that the schema accepts everything that the reader accepts.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(base + "pool = { max = -1, on_boot = \"x\" }\nbackoff.stable_after = \"never\"\n"))
	for _, tt := range badInput {
		if len(tt.text) < 10000 {
			f.Add([]byte(tt.text))
		}
	}
	s := configtest.Compiled(f, WriteSchema)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse("/x/f.toml", data); err != nil {
			return
		}
		if v, ok := configtest.InJSON(t, strings.TrimPrefix(string(data), "\xef\xbb\xbf")); ok && s.Validate(v) != nil {
			t.Errorf("%v\n%s", s.Validate(v), data)
		}
	})
}

// TestSchemaOfExamples checks all files in examples, and all TOML in the documentation, against
// the schema of their kind.
func TestSchemaOfExamples(t *testing.T) {
	schemas := map[string]*jsonschema.Resolved{
		"coppice": configtest.Compiled(t, WriteSchema), "grove": configtest.Compiled(t, grove.WriteSchema), "aidefile": configtest.Compiled(t, aidefileconfig.WriteSchema),
	}
	checked := 0
	check := func(where, kind, text string) {
		checked++
		if v, ok := configtest.InJSON(t, text); !ok || schemas[kind].Validate(v) != nil {
			t.Errorf("%s: %v\n%s", where, schemas[kind].Validate(v), text)
		}
	}
	err := filepath.WalkDir("../../examples", func(path string, _ os.DirEntry, err error) error {
		kind, ok := map[string]string{FileName: "coppice", grove.FileName: "grove", "Aidefile": "aidefile"}[filepath.Base(path)]
		if err != nil || !ok {
			return err
		}
		text, err := os.ReadFile(path)
		check(path, kind, string(text))
		return err
	})
	pages, glob := filepath.Glob("../../docs/*.md")
	if err := errors.Join(err, glob); err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		kind := "coppice"
		switch filepath.Base(page) {
		case "grove.md", "sage.md", "beliefs.md":
			kind = "grove"
		case "aidefile.md", "aidefile-reference.md", "acp.md":
			kind = "aidefile"
		}
		for _, block := range tomlBlocks(string(text)) {
			kind := kind
			switch {
			case strings.Contains(block, "[[agent]]"), strings.HasPrefix(block, "[aide]"):
				kind = "coppice"
			case kind == "grove" && !strings.Contains(block, "[project]"):
				block += "[project]\nname = \"shop\"\nentry = \"main.sg\"\n"
			}
			if _, whole := strings.CutPrefix(block, "# orders/"); whole || strings.HasPrefix(block, "[order]") {
				continue // files of orders have no schema
			}
			check(page, kind, block)
		}
	}
	if checked < 50 {
		t.Errorf("just %d pieces", checked)
	}
}

// tomlBlocks returns the TOML code blocks of a page.
func tomlBlocks(page string) (all []string) {
	for {
		_, rest, ok := strings.Cut(page, "```toml\n")
		if !ok {
			return all
		}
		var block string
		block, page, _ = strings.Cut(rest, "```")
		all = append(all, block)
	}
}
