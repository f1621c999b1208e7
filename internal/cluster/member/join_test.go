package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// The first machine makes the fleet, a second one with the store enters it, and a repetition changes settings alone.
func TestInit(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no member: %v", err)
	}
	c := here("Alpha.example.com")
	first := mustInit(t, dir, s, location(t, "1"), c)
	want := Settings{Listen: ":7420", Advertise: "Alpha.example.com:7420"}
	if !first.NewFleet || !first.NewNode || first.Name() != "alpha" || !cmp.Equal(first.Settings(), want) {
		t.Errorf("%+v of %s, %+v", first, first.Name(), first.Settings())
	}
	key := first.Current().KeyHash()
	files := filesOf(t, dir)

	// The same again changes nothing, not even the certificate.
	again := mustInit(t, dir, s, location(t, "1"), c)
	if again.NewFleet || again.NewNode || !maps.Equal(files, filesOf(t, dir)) {
		t.Errorf("the same again: %+v", again)
	}

	capacity := 3
	changed := mustInit(t, dir, s, location(t, "2"), Change{
		Hostname: "other", Listen: ":8000", Labels: map[string]string{"zone": "a"}, Capacity: &capacity,
	})
	want = Settings{":8000", "Alpha.example.com:8000", map[string]string{"zone": "a"}, 3}
	if changed.NewNode || changed.Name() != "alpha" || !cmp.Equal(changed.Settings(), want) ||
		changed.Current().KeyHash() != key || changed.Current().NotAfter() != first.Current().NotAfter() {
		t.Errorf("%+v of %s", changed.Settings(), changed.Name())
	}
	if kept := mustInit(t, dir, s, changed.Location(), here("x")); !cmp.Equal(kept.Settings(), want) {
		t.Errorf("without a change: %+v", kept.Settings())
	}
	l := changed.Location()
	for kind, file := range map[string]string{"ca 2": l.CA, "cert 2": l.Cert, "key 2": l.Key, "pw 2": l.PasswordFile} {
		text, err := os.ReadFile(file)
		info, statErr := os.Stat(file)
		if string(text) != kind || filepath.Dir(file) != dir || errors.Join(err, statErr) != nil ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %q, %v, %v", file, text, err, statErr)
		}
	}
	if n := len(filesOf(t, dir)); n != 8 { // key, certificate, settings, lock, and the four
		t.Errorf("%d files: %v", n, filesOf(t, dir))
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	i := changed.Info("v1", "f1")
	if i.Address != want.Advertise || i.Version != "v1" || i.Files != "f1" || i.Capacity != 3 {
		t.Errorf("%+v", i)
	}

	second := mustInit(t, nodeDir(t), s, location(t, "2"), here("beta"))
	if second.NewFleet || !second.NewNode || !second.Current().Authority().Equal(first.Current().Authority()) {
		t.Errorf("%+v", second)
	}
	if got := nodes(t, s); got != "alpha beta" {
		t.Errorf("nodes: %s", got)
	}
}

// What is refused makes no node, and leaves one as it was.
func TestInitRefuses(t *testing.T) {
	s := newStore(t)
	many := -1
	for name, c := range map[string]struct {
		Change
		says []string
	}{
		"a name":             {Change{Name: "A_b", Hostname: "x"}, []string{"capital"}},
		"a host as name":     {Change{Hostname: "under_score"}, []string{"under_score", "--name NAME"}},
		"no host":            {Change{}, []string{"--name NAME"}},
		"a local host":       {Change{Name: "a", Hostname: "localhost"}, []string{"localhost:7420", "--advertise"}},
		"a local listener":   {Change{Hostname: "a", Listen: "127.0.0.1:7420"}, []string{"--advertise"}},
		"all addresses":      {Change{Hostname: "a", Advertise: "0.0.0.0:7420"}, []string{"all addresses"}},
		"no port":            {Change{Hostname: "a", Listen: ":0"}, []string{"1 to 65535"}},
		"no address":         {Change{Hostname: "a", Listen: "7420"}, []string{"[HOST]:PORT"}},
		"a host with blanks": {Change{Hostname: "a", Listen: "a b:1"}, []string{"cannot listen"}},
		"a capacity":         {Change{Hostname: "a", Capacity: &many}, []string{"capacity is -1"}},
	} {
		_, err := Init(t.Context(), nodeDir(t), s, etcd.Location{}, c.Change)
		wantError(t, name, err, c.says...)
		if !errors.As(err, new(*InvalidError)) {
			t.Errorf("%s: %T", name, err)
		}
	}
	_, err := Init(t.Context(), nodeDir(t), s, etcd.Location{CA: "/missing"}, here("a"))
	wantError(t, "a missing file", err, "ca of the store", "/missing")
	if got := nodes(t, s); got != "" {
		t.Errorf("nodes: %s", got)
	}

	dir := nodeDir(t)
	mustInit(t, dir, s, location(t, "1"), here("a"))
	files := filesOf(t, dir)
	other := newStore(t)
	_, err = Init(t.Context(), dir, other, location(t, "1"), here("a"))
	wantError(t, "an empty store", err, "another fleet", "has none", dir)
	mustInit(t, nodeDir(t), other, location(t, "1"), here("b"))
	_, err = Init(t.Context(), dir, other, location(t, "1"), here("a"))
	wantError(t, "another fleet", err, "another fleet", "another certificate authority", dir)
	if !errors.Is(err, ErrOtherFleet) || nodes(t, other) != "b" {
		t.Errorf("%v, nodes %s", err, nodes(t, other))
	}
	_, err = Init(t.Context(), dir, s, location(t, "1"), Change{Name: "b"})
	wantError(t, "another name", err, "node a already", "coppice node rm a")
	_, err = Init(t.Context(), nodeDir(t), s, location(t, "1"), here("a"))
	wantError(t, "a taken name", err, "another key", "--name", "coppice node rm a")
	if !maps.Equal(files, filesOf(t, dir)) {
		t.Error("the node was changed")
	}
	large := location(t, "1")
	if err := os.WriteFile(large.CA, make([]byte, join.MaxBundle*4/5), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Init(t.Context(), nodeDir(t), s, large, here("c"))
	wantError(t, "a large file", err, "too large")
	if got := nodes(t, s); got != "a" {
		t.Errorf("nodes: %s", got)
	}
}

// A machine joins with a token, and gets its certificate and the way to the store.
func TestJoin(t *testing.T) {
	s := newStore(t)
	first := mustInit(t, nodeDir(t), s, location(t, "1"), here("a"))
	token, dir := serve(t, first.Member, s), nodeDir(t)
	r, err := Join(t.Context(), dir, token, here("b"), opening(s))
	if err != nil {
		t.Fatal(err)
	}
	if !r.NewNode || r.NewFleet || r.Name() != "b" || nodes(t, s) != "a b" ||
		!r.Current().Authority().Equal(first.Current().Authority()) {
		t.Errorf("%+v, nodes %s", r, nodes(t, s))
	}
	l := r.Location()
	if text, err := os.ReadFile(l.PasswordFile); err != nil || string(text) != "pw 1" || l.User != "root" {
		t.Errorf("%+v: %q, %v", l, text, err)
	}

	// Each member lets others join, and a member joins again for new settings.
	token = serve(t, r.Member, s)
	third, err := Join(t.Context(), nodeDir(t), token, here("c"), opening(s))
	if err != nil || nodes(t, s) != "a b c" {
		t.Fatalf("%v, nodes %s", err, nodes(t, s))
	}
	if one, two := string(must(third.Bundle())), string(must(first.Bundle())); one != two {
		t.Errorf("the bundles differ: %s and %s", one, two)
	}
	again, err := Join(t.Context(), dir, token, Change{Labels: map[string]string{"gpu": ""}}, opening(s))
	if err != nil || again.NewNode || again.Current().KeyHash() != r.Current().KeyHash() ||
		!cmp.Equal(again.Settings().Labels, map[string]string{"gpu": ""}) || again.Settings().Advertise != "b:7420" {
		t.Errorf("%+v, %v", again, err)
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func TestJoinRefuses(t *testing.T) {
	s, other := newStore(t), newStore(t)
	local := location(t, "1")
	local.Endpoints = []string{"localhost:2379"}
	first := mustInit(t, nodeDir(t), s, local, here("a"))
	foreign := mustInit(t, nodeDir(t), other, location(t, "1"), here("a"))
	token, foreignToken := serve(t, first.Member, s), serve(t, foreign.Member, other)
	refused := func(what string, token jointoken.Token, dir string, c Change,
		open func(context.Context, etcd.Location) (store.Store, error), says ...string) error {
		t.Helper()
		_, err := Join(t.Context(), dir, token, c, open)
		wantError(t, what, err, says...)
		return err
	}
	dir := nodeDir(t)
	refused("a name", token, dir, here("under_score"), opening(s), "--name")
	err := refused("a taken name", token, dir, here("a"), opening(s), "taken by another key", "--name",
		"coppice node rm a")
	if !errors.Is(err, join.ErrNameTaken) {
		t.Error(err)
	}
	refused("another store", token, dir, here("b"), opening(other), "another certificate authority", "make a token")
	refused("a store without a fleet", token, dir, here("b"), opening(newStore(t)), "no certificate authority")
	unreachable := func(context.Context, etcd.Location) (store.Store, error) { return nil, store.ErrUnavailable }
	refused("a store out of reach", token, dir, here("b"), unreachable, "has let this machine in",
		"means each machine itself", "coppice cluster init --store URL")
	refused("a store out of reach", foreignToken, nodeDir(t), here("b"), unreachable, "has let this machine in",
		"let this machine reach the members")
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the refusals: %v", err)
	}
	if n := len(filesOf(t, dir)); n != 2 { // the key and the lock
		t.Errorf("files are left: %v", filesOf(t, dir))
	}
	if err := jointoken.NewStore(s, nil).Revoke(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	err = refused("a revoked token", token, dir, here("b"), opening(s), "revoked")
	if !errors.Is(err, jointoken.ErrRefused) {
		t.Error(err)
	}
	token = serve(t, first.Member, s)
	if _, err := Join(t.Context(), dir, token, here("b"), opening(s)); err != nil {
		t.Fatal(err) // the name was registered by the first attempt, with the same key
	}
	files := filesOf(t, dir)
	err = refused("another fleet", foreignToken, dir, here("b"), opening(other), "another fleet", dir)
	if !errors.Is(err, ErrOtherFleet) || nodes(t, other) != "a b" { // b since the store was out of reach
		t.Errorf("%v, nodes %s", err, nodes(t, other))
	}
	refused("a store that is lost", token, dir, here("b"), unreachable, "has let this machine in")
	if !maps.Equal(files, filesOf(t, dir)) {
		t.Error("the node was changed")
	}
	unused, err := jointoken.NewStore(s, nil).Create(t.Context(), token.Authority, []string{"127.0.0.1:1"}, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	refused("no node", unused, nodeDir(t), here("c"), opening(s), "127.0.0.1:1", "refused",
		"the daemon of a node must run")
}

// A node whose store has another authority lets no machine in, and a store that is not there says so to the log alone.
func TestJoinHandlerOfOtherFleet(t *testing.T) {
	s, other := newStore(t), newStore(t)
	m := mustInit(t, nodeDir(t), s, location(t, "1"), here("a"))
	mustInit(t, nodeDir(t), other, location(t, "1"), here("b"))
	token := serve(t, m.Member, other)
	_, err := Join(t.Context(), nodeDir(t), token, here("c"), opening(s))
	wantError(t, "another authority", err, "503")
	if got := nodes(t, other); got != "b" {
		t.Errorf("nodes: %s", got)
	}
}

// A machine that lost its settings becomes the same node again.
func TestIncomplete(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	first := mustInit(t, dir, s, location(t, "1"), Change{Name: "special", Hostname: "host"})
	remove := func() {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, nodeFile)); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		if !errors.Is(err, ErrIncomplete) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without settings: %v", err)
		}
	}
	remove()
	again := mustInit(t, dir, s, location(t, "2"), here("host"))
	if !again.NewNode || again.Name() != "special" || again.Current().KeyHash() != first.Current().KeyHash() {
		t.Errorf("%+v", again)
	}
	remove()
	token := serve(t, again.Member, s)
	joined, err := Join(t.Context(), dir, token, here("host"), opening(s))
	if err != nil || joined.Name() != "special" || nodes(t, s) != "special" {
		t.Errorf("%v, nodes %s", err, nodes(t, s))
	}
	if n := len(filesOf(t, dir)); n != 8 {
		t.Errorf("%d files: %v", n, filesOf(t, dir))
	}
}

// A node that was removed is in the fleet again when a person repeats init; with a key that is lost it is not.
func TestInitAfterRemoval(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	mustInit(t, dir, s, location(t, "1"), here("a"))
	if err := registry.Remove(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	mustInit(t, dir, s, location(t, "1"), here("a"))
	if got := nodes(t, s); got != "a" {
		t.Errorf("nodes: %s", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := Init(t.Context(), dir, s, location(t, "1"), here("a"))
	wantError(t, "a lost key", err, "another key", "coppice node rm a")
}

// Commands at the same time wait for each other, and not for ever.
func TestConcurrent(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	errs := make(chan error)
	for i := range 8 {
		go func() {
			_, err := Init(t.Context(), dir, s, location(t, fmt.Sprint(i%2)), here("a"))
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if m, err := Load(dir); err != nil || nodes(t, s) != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	held, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = Init(ctx, dir, s, location(t, "1"), here("a"))
	wantError(t, "while another command works", err, "another command", "enough")
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}

// Keys and passwords are in no error.
func TestNoSecretsInErrors(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	m := mustInit(t, dir, s, location(t, "secret"), here("a"))
	text := string(must(m.Bundle()))
	for i := range len(text) {
		if _, _, err := parseBundle([]byte(text[:i])); err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}
