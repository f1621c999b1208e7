package join

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// A machine joins with the text of a token, and is a node from then on. Another may use the same token.
func TestJoin(t *testing.T) {
	database, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"memory": memory.New(), "sqlite": database} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { s.Close() })
			f := newFleetIn(t, s)
			token, err := jointoken.Parse(f.token(t).Text())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"web-1", "web-2"} {
				dir := filepath.Join(t.TempDir(), "node")
				key, err := identity.EnsureKey(dir)
				if err != nil {
					t.Fatal(err)
				}
				i, bundle, err := Join(t.Context(), token, name, key)
				if err != nil || string(bundle) != "etcd://10.0.0.1:2379" {
					t.Fatalf("%q, %v", bundle, err)
				}
				if err := i.Save(dir); err != nil {
					t.Fatal(err)
				}
				if i, err = identity.Load(dir); err != nil || i.Name() != name {
					t.Fatalf("%v, %v", i, err)
				}
				if text, err := f.hello(t, i); text != "hello "+name+"<nil>" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				if _, _, err := Join(t.Context(), token, name, key); err != nil { // the answer was lost
					t.Error(err)
				}
			}
			_, _, err = Join(t.Context(), token, "web-1", clustertest.Key(t))
			if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "remove the node web-1 first") {
				t.Error(err)
			}
			f.checkLog(t, token)
		})
	}
}

// checkLog checks that the log names each token, and no secret.
func (f *fleet) checkLog(t *testing.T, all ...jointoken.Token) {
	t.Helper()
	log := f.log.String()
	for _, token := range all {
		if strings.Contains(log, token.Text()[60:90]) || strings.Contains(log, string(token.Secret())) ||
			!strings.Contains(log, token.ID) {
			t.Errorf("%v in the log:\n%s", token, log)
		}
	}
}

func TestManyJoinAtOnce(t *testing.T) {
	f := newFleet(t)
	token := f.token(t)
	var wait sync.WaitGroup
	for n := range 30 {
		key := clustertest.Key(t)
		wait.Go(func() {
			if _, _, err := Join(t.Context(), token, fmt.Sprint("node-", n), key); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if f.registered() != 31 {
		t.Errorf("%d nodes", f.registered())
	}
}

// Without a certificate nothing but a request to join is answered.
func TestOnlyJoin(t *testing.T) {
	f := newFleet(t)
	raw := func(request string) (status int, text string) {
		conn, err := tls.Dial("tcp", f.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	const rest = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	for line, want := range map[string]int{
		"POST /join": 400, "GET /join": 405, "POST /%6aoin": 400, "POST /join?x=/nodes": 400, "OPTIONS /join": 405,
		"GET /": 401, "POST /": 401, "GET /nodes": 401, "POST //join": 401, "POST /join/": 401, "POST /join/x": 401,
		"POST /JOIN": 401, "POST /./join": 401, "POST /x/../join": 401, "POST /join/../nodes": 401,
		"POST /join%2F": 401, "POST /join%00": 401,
		"POST /join;x": 401, "GET /?/join": 401, "OPTIONS *": 401, "HEAD /nodes": 401,
		"CONNECT localhost:1": 401, "CONNECT /nodes": 401, "POST http://localhost/nodes": 401, "DELETE /nodes": 401,
		"POST http://localhost/join": 400, "X /nodes": 401,
	} {
		if status, text := raw(line + rest); status != want || strings.Contains(text, "hello") {
			t.Errorf("%s: %d %q, want %d", line, status, text, want)
		}
	}
	// A request to join opens no way to other paths on its connection.
	two := "POST /join" + rest + "GET /nodes" + rest
	if status, text := raw(two); status != 400 || strings.Contains(text, "hello") {
		t.Errorf("%d %q", status, text)
	}
	if status, text := raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); status/100 == 2 {
		t.Errorf("HTTP/2: %d %q", status, text)
	}
	if conn, err := net.Dial("tcp", f.address); err == nil {
		io.WriteString(conn, "GET /nodes"+rest)
		if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "hello") {
			t.Errorf("without TLS: %q", answer)
		}
		conn.Close()
	}
	// A node that is not in the registry, or of another fleet, gets nothing, and cannot even join again with its
	// certificate.
	for _, i := range []*identity.Identity{f.Node(t, "unknown"), clustertest.New(t).Node(t, "first")} {
		show := i.TLS()
		for _, path := range []string{"/", "/join"} {
			if text, err := get(&tls.Config{
				InsecureSkipVerify:   true,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show, nil },
			}, "https://"+f.address+path); err == nil {
				t.Errorf("%s: %q", path, text)
			}
		}
	}
	if text, err := f.hello(t, f.first); text != "hello first<nil>" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// Each address is tried, and the error says why it failed.
func TestAddresses(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow := silent.Addr().String()
	within := addressTimeout / 50 // for those that answer
	join := func(addresses ...string) error {
		_, _, err := joinWithin(t.Context(), within, f.token(t, addresses...), "a", f.joining(t))
		return err
	}
	if err := join(closed, other.address, f.address); err != nil {
		t.Error(err)
	}
	if err := join(slow, f.address); err != nil {
		t.Error(err)
	}
	err = join(closed, other.address, slow)
	for _, want := range []string{
		closed + ": dial tcp", "connection refused", other.address + ": the server is no node of the token's fleet",
		slow + ": no answer in time", within.String(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if other.log.String() != "" {
		t.Error(other.log.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Join(ctx, f.token(t, slow, closed), "a", clustertest.Key(t)); !errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), closed) {
		t.Error(err)
	}
	if _, _, err := Join(t.Context(), f.token(t), "A", clustertest.Key(t)); err == nil ||
		!strings.Contains(err.Error(), "capital letters") {
		t.Error(err)
	}
}

// What all nodes would refuse is not tried at other addresses.
func TestRefused(t *testing.T) {
	f := newFleet(t)
	tried := make(chan string, 10)
	second := f.serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { tried <- r.URL.Path }))
	revoked := f.token(t, f.address, second)
	if err := f.tokens.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err := Join(t.Context(), revoked, "a", clustertest.Key(t))
	if !errors.Is(err, jointoken.ErrRefused) || !strings.Contains(err.Error(), "at "+f.address+": the join token is") {
		t.Error(err)
	}
	valid := f.token(t, f.address, second)
	if _, _, err := Join(t.Context(), valid, "first", clustertest.Key(t)); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	if len(tried) > 0 {
		t.Error("the second address was tried")
	}
	if f.registered() != 1 {
		t.Errorf("%d nodes", f.registered())
	}
	f.checkLog(t, revoked, valid)
}
