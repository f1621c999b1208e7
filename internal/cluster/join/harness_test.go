package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a fleet with one node, "first", that lets machines join.
type fleet struct {
	*clustertest.Fleet
	tokens  *jointoken.Store
	first   *identity.Identity
	address string
	log     *clustertest.Buffer

	mu     sync.Mutex
	nodes  map[string][32]byte
	bundle func() ([]byte, error)
	broken error // what registering a node returns
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	s := memory.New()
	t.Cleanup(func() { s.Close() })
	return newFleetIn(t, s)
}

func newFleetIn(t *testing.T, s store.Store) *fleet {
	t.Helper()
	f := &fleet{
		Fleet: clustertest.New(t), nodes: make(map[string][32]byte), log: &clustertest.Buffer{},
		bundle: func() ([]byte, error) { return []byte("etcd://10.0.0.1:2379"), nil },
	}
	f.tokens = jointoken.NewStore(s, slog.New(slog.NewTextHandler(f.log, nil)))
	f.first = f.Node(t, "first")
	f.nodes["first"] = f.first.KeyHash()
	f.address = f.serve(t, f.handler())
	return f
}

func (f *fleet) handler() *Handler {
	return NewHandler(Options{
		Authority: having(f.Authority), Check: f.tokens.Check, Register: f.register,
		Bundle: func(context.Context, string) ([]byte, error) { return f.bundle() },
		Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	})
}

// having returns an authority.
func having(a *authority.Authority) func(context.Context) (*authority.Authority, error) {
	return func(context.Context) (*authority.Authority, error) { return a, nil }
}

// serve serves what a node does, and returns the address.
func (f *fleet) serve(t *testing.T, join http.Handler) string {
	t.Helper()
	config, h := Endpoint(f.identity, f.admit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := mtls.PeerOf(r.TLS)
		fmt.Fprint(w, "hello ", peer.Name, err)
	}), join)
	return clustertest.Serve(t, config, h)
}

func (f *fleet) identity() *identity.Identity { return f.first }

func (f *fleet) admit(name string, key [32]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.nodes[name]; !ok || have != key {
		return errors.New("not in the registry")
	}
	return nil
}

func (f *fleet) register(_ context.Context, name string, key [32]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if have, ok := f.nodes[name]; ok && have != key {
		return fmt.Errorf("%w; remove the node %s first", ErrNameTaken, name)
	}
	f.nodes[name] = key
	return nil
}

// registered returns the number of nodes.
func (f *fleet) registered() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nodes)
}

// token makes a token with addresses, or that of the first node.
func (f *fleet) token(t *testing.T, addresses ...string) jointoken.Token {
	t.Helper()
	if len(addresses) == 0 {
		addresses = []string{f.address}
	}
	token, err := f.tokens.Create(t.Context(), pki.Hash(f.Certificate()), addresses, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// hello asks the first node who this is.
func (f *fleet) hello(t *testing.T, i *identity.Identity) (string, error) {
	t.Helper()
	config := mtls.Client(func() *identity.Identity { return i }, mtls.Peer{Name: "first", Key: f.first.KeyHash()})
	return get(config, "https://"+f.address+"/")
}

func get(config *tls.Config, url string) (string, error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// joining returns the key of a machine, which registers the name "a" at its first join.
func (f *fleet) joining(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, "a")
	return clustertest.Key(t)
}
