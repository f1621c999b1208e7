package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// A node whose user may not use all of the store, or whose store does not answer, has a problem.
func TestRightsOfNode(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	post := func(path string, body map[string]any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Post("http://"+c.Endpoints()[0]+"/v3/auth/"+path, "application/json", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if said, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s, %v", path, answer.Status, said, err)
		}
	}
	for _, user := range []string{"root", "shop"} {
		post("role/add", map[string]any{"name": user})
		post("user/add", map[string]any{"name": user, "password": "secret"})
		post("user/grant", map[string]any{"user": user, "role": user})
	}
	for from, to := range map[string]string{"p/a": "p/l", "p/m": "p/z"} { // all but the leases
		post("role/grant", map[string]any{"name": "shop", "perm": map[string]any{
			"permType": "READWRITE", "key": []byte(from), "range_end": []byte(to),
		}})
	}
	post("enable", map[string]any{})
	config := filepath.Join(t.TempDir(), "coppice.toml")
	password := filepath.Join(filepath.Dir(config), "password")
	for name, text := range map[string]string{config: file, password: "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := project.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := etcd.ParseLocation("etcd://shop@" + c.Endpoints()[0] + "/p?password_file=" + password)
	if err != nil {
		t.Fatal(err)
	}
	db, err := etcd.Open(t.Context(), l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := member.Init(t.Context(), p.Node(), db, l, member.Change{Name: "a", Advertise: "a:1"}); err != nil {
		t.Fatal(err)
	}
	problem := func() (text string) {
		t.Helper()
		found, err := Check(t.Context(), config, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Check == "store" && f.Level == LevelProblem {
				text += f.Detail
			}
		}
		return text
	}
	if text := problem(); !strings.Contains(text, "user shop needs a role") ||
		!strings.HasPrefix(text, "the user may not use p/l/:") {
		t.Errorf("rights are missing: %q", text)
	}
	c.Kill(0)
	if text := problem(); !strings.Contains(text, "nothing listens on "+c.Endpoints()[0]) {
		t.Errorf("without etcd: %q", text)
	}
}
