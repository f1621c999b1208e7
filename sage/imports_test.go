package sage_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The packages of the language import each other, the supervisor library, and
// leaf packages that know nothing of agents. Tests may also use the host that
// Coppice is.
func TestImports(t *testing.T) {
	const module = "github.com/coppice-dev/coppice/"
	allowed := map[string]bool{
		"supervisor":                true,
		"internal/answer/candidate": true, // JSON in the text of a model
		"internal/answer/schema":    true, // JSON Schema
		"internal/plaintext":        true, // escape sequences of terminals
		"internal/suggest":          true, // the nearest of some words
	}
	const format = `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}`
	out, err := exec.Command("go", "list", "-f", format, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, ours := strings.CutPrefix(to, module)
		if !ours {
			continue
		}
		seen++
		if !strings.HasPrefix(name, "sage/") && !allowed[name] {
			t.Errorf("%s imports %s, which is not part of the language", strings.TrimPrefix(from, module), name)
		}
	}
	if seen == 0 {
		t.Error("no imports were found")
	}
	// The leaves are leaves.
	for name := range allowed {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), module) {
			t.Errorf("%s imports other packages of the project:\n%s", name, out)
		}
	}
}
