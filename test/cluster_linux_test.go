package test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// nodeFile returns the name of a file of the node that a project is.
func (f *fleet) nodeFile(name string) string { return filepath.Join(f.dir, ".coppice", "node", name) }

// member reads the node that a project is.
func (f *fleet) member() *member.Member {
	f.t.Helper()
	m, err := member.Load(f.nodeFile(""))
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// says runs a command that must succeed and say all of these texts.
func (f *fleet) says(args []string, texts ...string) {
	f.t.Helper()
	out := f.do(args...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			f.t.Errorf("coppice %s does not say %q:\n%s", strings.Join(args, " "), text, out)
		}
	}
}

func initArgs(args ...string) []string { return append([]string{"cluster", "init"}, args...) }

// The first machine starts the fleet, one with the same store enters it, and a repetition changes settings.
func TestClusterInit(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true})
	url := c.URL("fleets/one")
	f, second := newFleet(t, agentTOML("a", sleeper)), newFleet(t, agentTOML("a", sleeper))
	f.wantFailure(2, initArgs(), "--store is missing")
	f.wantFailure(1, []string{"cluster", "token"}, "this machine is no node of a fleet", "coppice cluster init")
	f.says(initArgs("--store", url, "--name", "one", "--advertise", "10.0.0.1:7420"), "node one of a new fleet",
		"10.0.0.1:7420", "coppice up -d", "coppice cluster token", "coppice cluster join TOKEN",
		"note: only this machine reaches the store")
	if out, _ := f.try("status"); strings.Contains(out, "killed") {
		t.Errorf("a daemon that never was is killed:\n%s", out)
	}
	one := f.member()
	f.says(initArgs("--store", url, "--label", "zone=a", "--capacity", "7", "--listen", ":7421"),
		"this machine is node one\n", "zone=a", "7 agents", "10.0.0.1:7421", "coppice up -d")
	again := f.member()
	if s := again.Settings(); again.Current().KeyHash() != one.Current().KeyHash() || s.Labels["zone"] != "a" ||
		s.Capacity != 7 || s.Listen != ":7421" {
		t.Errorf("%+v", s)
	}

	second.says(initArgs("--store", url, "--name", "two", "--advertise", "10.0.0.2:7420"),
		"node two of the fleet that the store has already")
	second.wantFailure(1, initArgs("--store", c.URL("fleets/two")), "another fleet", second.nodeFile(""))
	second.wantFailure(2, initArgs("--name", "three"), "node two already")
	second.wantFailure(2, initArgs("--label", "zone"), "NAME=VALUE")
	second.wantFailure(2, initArgs("--store", "sqlite"), "etcd://")
	second.wantFailure(1, initArgs("--store", "etcd://127.0.0.1:1/p"), "etcd://127.0.0.1:1/p", "cannot be reached",
		"nothing listens on")
	third := newFleet(t, agentTOML("a", sleeper))
	third.wantFailure(1, initArgs("--store", url, "--name", "two"), "another key", "--name", "coppice node rm two")
	if _, err := member.Load(third.nodeFile("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the third machine: %v", err)
	}

	// The copies are enough.
	for _, file := range []string{c.Files.CA, c.Files.Cert, c.Files.Key} {
		if err := os.Rename(file, file+".gone"); err != nil {
			t.Fatal(err)
		}
	}
	f.says(initArgs("--label", ""), "node one")
	f.testTokens()
	for file, wrong := range map[string]func(string) error{
		"node.json":       func(name string) error { return os.Truncate(name, 40) },
		"key.pem":         func(name string) error { return os.Chmod(name, 0o644) },
		"certificate.pem": os.Remove,
	} {
		broken := newFleet(t, agentTOML("a", sleeper))
		if err := os.CopyFS(broken.nodeFile(""), os.DirFS(f.nodeFile(""))); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(broken.nodeFile(""), 0o700), wrong(broken.nodeFile(file))); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{initArgs("--capacity", "1"), {"cluster", "token"}} {
			broken.wantFailure(1, args, broken.nodeFile(""))
		}
	}
}

// testTokens makes, lists and removes tokens.
func (f *fleet) testTokens() {
	f.t.Helper()
	r := launch(f.t, f.dir, "cluster", "token", "--ttl", "10m")
	r.wantExit(0)
	text, hint := strings.TrimSuffix(r.out.String(), "\n"), r.err.String()
	if !strings.HasPrefix(text, "coppice1-") || strings.ContainsAny(text, " \n") ||
		!strings.Contains(hint, "within 10m00s: coppice cluster join TOKEN") || !strings.Contains(hint, "no daemon") {
		f.t.Errorf("%q, %q", text, hint)
	}
	var all []struct{ ID, Created, Expires string }
	if err := json.Unmarshal([]byte(f.do("cluster", "token", "ls", "--json")), &all); err != nil || len(all) != 1 {
		f.t.Fatalf("%v, %v", all, err)
	}
	id := all[0].ID
	if !strings.HasPrefix(text, "coppice1-"+id+"-") {
		f.t.Errorf("the token %s has the ID %s", text, id)
	}
	f.says([]string{"cluster", "token", "ls"}, "EXPIRES", id, "in 9m")
	f.wantFailure(2, []string{"cluster", "token", "rm", text}, "not the ID of a join token")
	f.says([]string{"cluster", "token", "rm", id}, "removed")
	f.wantFailure(3, []string{"cluster", "token", "rm", id}, "no such join token")
	f.says([]string{"cluster", "token", "ls"}, "no tokens")
	f.wantFailure(2, []string{"cluster", "token", "--ttl", "400d"}, "at most")
	f.wantFailure(2, []string{"cluster", "token", "--ttl", "0s"}, "more than 0")
}

// A machine joins with a token at a node that serves it, and is then a node like the first one.
func TestClusterJoin(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true})
	f, second := newFleet(t, agentTOML("a", sleeper)), newFleet(t, agentTOML("a", sleeper))
	f.do(initArgs("--store", c.URL("fleet"), "--name", "one", "--advertise", "127.0.0.1:1")...)
	m := f.member()
	logger := slog.New(slog.DiscardHandler)
	db, err := etcd.Open(t.Context(), m.Location(), logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	refuse := func(string, [32]byte) error { return errors.New("no nodes") }
	config, handler := join.Endpoint(m.Current, refuse, http.NotFoundHandler(), m.JoinHandler(db, logger))
	address := clustertest.Serve(t, config, handler)
	token := func(at string, args ...string) string {
		t.Helper()
		f.do(initArgs("--advertise", at)...)
		return strings.TrimSpace(f.printed(append([]string{"cluster", "token"}, args...)...))
	}
	joins := func(token string, args ...string) []string {
		return append([]string{"cluster", "join", token}, args...)
	}

	nowhere := token("127.0.0.1:1")
	second.wantFailure(1, joins(nowhere), "127.0.0.1:1", "connection refused", "the daemon of a node must run there")
	stranger := clustertest.New(t).Node(t, "stranger")
	strange := func() *identity.Identity { return stranger }
	strangeConfig, _ := join.Endpoint(strange, refuse, http.NotFoundHandler(), handler)
	second.wantFailure(1, joins(token(clustertest.Serve(t, strangeConfig, handler))), "no node of the token's fleet",
		"was not sent")
	good := token(address)
	second.wantFailure(1, joins(token(address, "--ttl", "1ms")), "unknown, expired or revoked", "coppice cluster token")
	second.wantFailure(1, joins(good, "--name", "one"), "taken by another key", "--name", "coppice node rm one")
	second.wantFailure(2, joins(good[:60]), "incomplete")
	second.wantFailure(2, joins(good, good), "takes one argument")
	if out, _ := second.try(joins(good, good)...); strings.Contains(out, good[20:40]) {
		t.Errorf("the token is shown: %s", out)
	}
	if _, err := member.Load(second.nodeFile("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the refusals: %v", err)
	}

	r := newCoppice(t, joins("-", "--name", "two", "--advertise", "10.0.0.2:7420", "--label", "gpu=")...)
	r.Stdin = strings.NewReader(good + "\n")
	r.start(second.dir)
	r.wantExit(0)
	out := r.out.String()
	if !strings.Contains(out, "node two of the fleet") || !strings.Contains(out, "coppice up -d") {
		t.Errorf("%s", out)
	}
	joined := second.member()
	if !joined.Current().Authority().Equal(m.Current().Authority()) || joined.Name() != "two" ||
		joined.Location().CA == m.Location().CA {
		t.Errorf("%s, %+v", joined.Name(), joined.Location())
	}
	second.says([]string{"cluster", "token", "ls"}, "EXPIRES", good[9:17])
	second.says(joins(good, "--capacity", "3"), "node two", "gpu=", "3 agents")

	bare := newFleet(t, "") // whose file has no agent
	bare.says(joins(good, "--name", "bare", "--advertise", "10.0.0.4:7420"), "node bare of the fleet")

	other := newFleet(t, agentTOML("a", sleeper))
	other.do(initArgs("--store", c.URL("other"), "--name", "three", "--advertise", "10.0.0.3:7420")...)
	other.wantFailure(1, joins(good), "another fleet", other.nodeFile(""))
	f.says([]string{"node", "rm", "two"}, "node two is removed", "keeps the client certificate of the nodes for etcd",
		"--client-crl-file")
}

// A machine becomes a node while no daemon runs, with the state that it has or explicitly without.
func TestClusterInitState(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	url := c.URL("fleet")
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	start := initArgs("--store", url, "--name", "one", "--advertise", "10.0.0.1:1")
	f.wantFailure(1, start, "a daemon is already running", "coppice down --keep-agents")
	f.do("down")
	f.wantFailure(1, start, "state.db", "coppice store copy sqlite '"+url+"'", "--fresh")
	if _, err := member.Load(f.nodeFile("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node: %v", err)
	}
	f.do("store", "copy", "sqlite", url)
	f.says(start, "new fleet", "does not use", "state.db")

	fresh := newFleet(t, agentTOML("a", sleeper))
	fresh.do("up", "-d")
	fresh.do("down")
	fresh.says(initArgs("--store", c.URL("fresh"), "--fresh", "--advertise", "10.0.0.1:1"), "new fleet", "does not use")

	fresh.rewrite("[project\n")
	fresh.says(initArgs("--capacity", "1"), "1 agent") // of a node, whatever is in the file
	broken := newFleet(t, "[project\n")
	broken.wantFailure(78, initArgs("--store", url), "coppice.toml")
}

// A command whose store hangs ends with an error that names it.
func TestClusterSilentStore(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	f := newFleet(t, agentTOML("a", sleeper))
	f.do(initArgs("--store", c.URL("fleet"), "--name", "one", "--advertise", "10.0.0.1:1")...)
	c.Pause(0)
	f.wantFailure(1, []string{"cluster", "token"}, c.URL("fleet"))
	c.Continue(0)
	f.says([]string{"cluster", "token", "ls"}, "no tokens")
}

// An agent makes no nodes and no tokens.
func TestClusterOfAgent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	f.env = []string{proc.EnvSocket + "=" + socket, proc.EnvToken + "=token", proc.EnvAgent + "=t/a"}
	token := "coppice1-wwqbidl3-abb3mcld2hoydxwn7vsgar74ro4b3dzasilunb5nglg2l2yrfzkb56wlqt4cfm6j2ebzlo7ingti6eezyehm" +
		"c4yba53g2orxgqzdaddyuu3a"
	for _, args := range [][]string{
		initArgs("--store", "etcd://127.0.0.1:1"), {"cluster", "join", token, "--name", "a", "--advertise", "a:1"},
		{"cluster", "token"}, {"cluster", "token", "ls"}, {"cluster", "token", "rm", "wwqbidl3"},
	} {
		f.wantFailure(exitAuth, args, "only people can run coppice cluster")
	}
	if _, err := os.Lstat(f.nodeFile("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node: %v", err)
	}
}
