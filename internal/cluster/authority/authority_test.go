package authority_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Of concurrent calls one creates the authority, and all return the same.
func TestEnsure(t *testing.T) {
	database, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{
		"memory": memory.New(), "sqlite": database,
		"faults": storetest.NewFaults(memory.New(), 1, storetest.Rates{Unknown: 0.6, Conflict: 0.3}),
	} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			if _, err := authority.Load(t.Context(), s); !errors.Is(err, authority.ErrNone) {
				t.Errorf("there is none: %v", err)
			}
			const callers = 8
			var all [callers]*authority.Authority
			var created [callers]bool
			var wait sync.WaitGroup
			for n := range callers {
				wait.Go(func() {
					var err error
					if all[n], created[n], err = authority.Ensure(t.Context(), s); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if t.Failed() {
				return
			}
			number := 0
			for n := range callers {
				if created[n] {
					number++
				}
				if !all[n].Certificate().Equal(all[0].Certificate()) {
					t.Error("two calls have returned other authorities")
				}
			}
			if number != 1 {
				t.Errorf("%d calls have created the authority", number)
			}
			loaded, err := authority.Load(t.Context(), s)
			if err != nil || !loaded.Certificate().Equal(all[0].Certificate()) {
				t.Error(err)
			}
			if again, created, err := authority.Ensure(t.Context(), s); err != nil || created ||
				!again.Certificate().Equal(all[0].Certificate()) {
				t.Errorf("%v, %v", created, err)
			}
		})
	}
}

func TestStoreFails(t *testing.T) {
	s := memory.New()
	faults := storetest.NewFaults(s, 1, storetest.Rates{})
	faults.Fail(store.ErrReadOnly)
	if _, created, err := authority.Ensure(t.Context(), faults); created || !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("%v, %v", created, err)
	}
	s.Close()
	if _, err := authority.Load(context.Background(), s); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// A damaged record is an error that reveals nothing of the key, and it is left alone.
func TestDamaged(t *testing.T) {
	s := memory.New()
	defer s.Close()
	if _, _, err := authority.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	r, err := store.Get(t.Context(), s, authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	var good struct {
		Certificate string `json:"certificate"`
		Key         string `json:"key"`
	}
	if err := json.Unmarshal(r.Value, &good); err != nil {
		t.Fatal(err)
	}
	record := func(certificate, key string) string {
		value, err := json.Marshal(map[string]string{"certificate": certificate, "key": key})
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	other := clustertest.New(t)
	leaf := string(pki.EncodeCertificates(other.Sign(t, clustertest.Template("a"), other.Key.Public())))
	secret := strings.Split(good.Key, "\n")[1]
	for name, c := range map[string]struct{ value, err string }{
		"empty":             {"", "in JSON"},
		"not JSON":          {good.Key, "in JSON"},
		"key as a number":   {`{"key": 7}`, "in JSON"},
		"empty object":      {`{}`, "certificate: 0 PEM blocks"},
		"no key":            {record(good.Certificate, ""), "key: 0 PEM blocks"},
		"key cut":           {record(good.Certificate, good.Key[:len(good.Key)/2]), "key: other text"},
		"of another":        {record(string(pki.EncodeCertificates(other.Certificate())), good.Key), "not that of"},
		"no authority":      {record(leaf, good.Key), "may not sign"},
		"swapped":           {record(good.Key, good.Certificate), "certificate: PEM block 1"},
		"huge":              {record(strings.Repeat(good.Certificate, 900), good.Key), "too many"},
		"two certificates":  {record(good.Certificate+good.Certificate, good.Key), "PEM block 2"},
		"certificate twice": {record(good.Certificate, good.Certificate), "key: PEM block 1"},
	} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil,
			[]store.Op{{Kind: store.Put, Key: authority.Key, Value: []byte(c.value)}}); err != nil {
			t.Fatal(err)
		}
		_, created, err := authority.Ensure(t.Context(), s)
		if created || err == nil || !strings.Contains(err.Error(), "cluster/authority, is damaged") ||
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v, want %q", name, created, err, c.err)
		}
		if err != nil && (strings.Contains(err.Error(), secret[:16]) || len(err.Error()) > 500) {
			t.Errorf("%s: %v", name, err)
		}
		if r, err := store.Get(t.Context(), s, authority.Key); string(r.Value) != c.value || err != nil {
			t.Errorf("%s: the record was changed, %v", name, err)
		}
	}
}

func TestIssue(t *testing.T) {
	f, key := clustertest.New(t), clustertest.Key(t)
	before := time.Now()
	c, err := f.Issue(&key.PublicKey, "web-1")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := pki.KeyHash(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if name, got, err := pki.Node(c); name != "web-1" || got != hash || err != nil {
		t.Errorf("%q, %x, %v", name, got, err)
	}
	if from := before.Sub(c.NotBefore); from < time.Hour-time.Second || from > time.Hour+time.Second {
		t.Errorf("valid from %v", c.NotBefore)
	}
	if life := c.NotAfter.Sub(before); life < authority.Life-time.Second || life > authority.Life+time.Minute {
		t.Errorf("valid until %v", c.NotAfter)
	}
	if years := f.Certificate().NotAfter.Year() - before.UTC().Year(); years != 20 {
		t.Errorf("the authority is valid until %v", f.Certificate().NotAfter)
	}
	pool := x509.NewCertPool()
	pool.AddCert(f.Certificate())
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: "web-1.node.coppice",
			KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "Web", "a/b", "*", strings.Repeat("a", 64)} {
		if _, err := f.Issue(&key.PublicKey, name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.PublicKey{nil, key, weak.Public(), large.Public()} {
		if _, err := f.Issue(key, "web-1"); err == nil {
			t.Errorf("%T: no error", key)
		}
	}
}

// A certificate that the authority's key has signed for anything but a node is not trusted.
func TestConstraints(t *testing.T) {
	f, key := clustertest.New(t), clustertest.Key(t)
	pool := x509.NewCertPool()
	pool.AddCert(f.Certificate())
	verify := func(c *x509.Certificate, between ...*x509.Certificate) error {
		o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool()}
		for _, b := range between {
			o.Intermediates.AddCert(b)
		}
		_, err := c.Verify(o)
		return err
	}
	if err := verify(f.Sign(t, clustertest.Template("a"), key.Public())); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*x509.Certificate){
		"name":         func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} },
		"similar name": func(c *x509.Certificate) { c.DNSNames = []string{"a.evilnode.coppice"} },
		"name too":     func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "example.com") },
		"IPv4":         func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")} },
		"IPv6":         func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("::1")} },
		"code":         func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
	} {
		template := clustertest.Template("a")
		change(template)
		if err := verify(f.Sign(t, template, key.Public())); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A node cannot sign, and neither can another authority that the authority has signed.
	leaf := f.Sign(t, clustertest.Template("a"), key.Public())
	if err := verify(clustertest.Sign(t, clustertest.Template("b"), key.Public(), leaf, key), leaf); err == nil {
		t.Error("signed by a node: no error")
	}
	template := clustertest.Template("a")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	between := f.Sign(t, template, key.Public())
	err := verify(clustertest.Sign(t, clustertest.Template("b"), key.Public(), between, key), between)
	if err == nil {
		t.Error("signed by another authority: no error")
	}
}

// An authority that has expired issues nothing.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, key := clustertest.New(t), clustertest.Key(t)
		time.Sleep(time.Until(f.Certificate().NotAfter))
		if _, err := f.Issue(&key.PublicKey, "a"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := f.Issue(&key.PublicKey, "a"); !errors.Is(err, pki.ErrExpired) {
			t.Error(err)
		}
	})
}
