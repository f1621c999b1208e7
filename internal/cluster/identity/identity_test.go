package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
)

// joined returns a directory with the identity of a node, as a join leaves it.
func joined(t *testing.T, f *clustertest.Fleet, name string) (dir string, i *identity.Identity) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), ".coppice", "node")
	i = save(t, f, dir, name)
	return dir, i
}

func save(t *testing.T, f *clustertest.Fleet, dir, name string) *identity.Identity {
	t.Helper()
	key, err := identity.EnsureKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := issue(t, f, key, name)
	if err := i.Save(dir); err != nil {
		t.Fatal(err)
	}
	return i
}

func issue(t *testing.T, f *clustertest.Fleet, key *ecdsa.PrivateKey, name string) *identity.Identity {
	t.Helper()
	c, err := f.Issue(&key.PublicKey, name)
	if err != nil {
		t.Fatal(err)
	}
	i, err := identity.New(key, c, f.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestSaveAndLoad(t *testing.T) {
	f := clustertest.New(t)
	dir, i := joined(t, f, "web-1")
	same := func(got, want *identity.Identity) {
		t.Helper()
		a, b := got.TLS(), want.TLS()
		if got.Name() != want.Name() || got.KeyHash() != want.KeyHash() || !got.PublicKey().Equal(want.PublicKey()) ||
			!bytes.Equal(a.Certificate[0], b.Certificate[0]) || !bytes.Equal(a.Certificate[1], b.Certificate[1]) ||
			!got.Authority().Equal(f.Certificate()) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	loaded, err := identity.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	same(loaded, i)
	if hash, err := pki.KeyHash(i.PublicKey()); err != nil || hash != i.KeyHash() {
		t.Errorf("%x, %v", hash, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	// Another join and a renewal keep the key, and replace the certificate.
	again := save(t, f, dir, "web-2")
	if !again.PublicKey().Equal(i.PublicKey()) {
		t.Error("the key was changed")
	}
	c, err := f.Issue(again.PublicKey(), "web-2")
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := again.Renewed(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := renewed.Save(dir); err != nil {
		t.Fatal(err)
	}
	if loaded, err = identity.Load(dir); err != nil {
		t.Fatal(err)
	}
	same(loaded, renewed)
}

// Each error names the file, and says what to do.
func TestLoadDamaged(t *testing.T) {
	f, other := clustertest.New(t), clustertest.New(t)
	read := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(file string, parts ...[]byte) {
		if err := os.WriteFile(file, bytes.Join(parts, nil), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	const join = "coppice cluster join TOKEN"
	for name, c := range map[string]struct {
		damage func(key, certificate string)
		err    []string
	}{
		"no key":       {func(key, _ string) { must(os.Remove(key)) }, []string{"key.pem", "no such file", join}},
		"no directory": {func(key, _ string) { must(os.RemoveAll(filepath.Dir(key))) }, []string{"no such file", join}},
		"not joined": {func(_, certificate string) { must(os.Remove(certificate)) },
			[]string{"certificate.pem", "no such file", join}},
		"readable key": {func(key, _ string) { must(os.Chmod(key, 0o640)) }, []string{"has mode 0640", "chmod 600 "}},
		"writable key": {func(key, _ string) { must(os.Chmod(key, 0o602)) }, []string{"has mode 0602", "chmod 600 "}},
		"linked key": {func(key, _ string) {
			must(errors.Join(os.Rename(key, key+"2"), os.Symlink(key+"2", key)))
		}, []string{"key.pem is a symbolic link", "remove it"}},
		"empty key":   {func(key, _ string) { write(key) }, []string{"key.pem is damaged", "remove it", join}},
		"garbage key": {func(key, _ string) { write(key, []byte("garbage")) }, []string{"key.pem is damaged", join}},
		"huge key": {func(key, _ string) { write(key, bytes.Repeat([]byte("x"), 1<<20)) },
			[]string{"key.pem is larger than", "remove it", join}},
		"cut key": {func(key, _ string) { text := read(key); write(key, text[:len(text)/2]) },
			[]string{"key.pem is damaged", join}},
		"other key": {func(key, _ string) {
			must(os.Remove(key))
			_, err := identity.EnsureKey(filepath.Dir(key))
			must(err)
		},
			[]string{"certificate.pem, with key.pem", "not for this private key", join}},
		"cut certificate": {func(_, certificate string) {
			text := read(certificate)
			write(certificate, text[:len(text)-40])
		}, []string{"certificate.pem is damaged", join}},
		"huge certificate": {func(_, certificate string) { write(certificate, bytes.Repeat([]byte("x"), 1<<20)) },
			[]string{"certificate.pem is larger than", "remove it", join}},
		"no authority": {func(_, certificate string) {
			text := read(certificate)
			write(certificate, text[:bytes.Index(text, []byte("-----END"))+len("-----END CERTIFICATE-----\n")])
		}, []string{"certificate.pem is damaged: 1 PEM blocks", join}},
		"key in place of certificate": {func(key, certificate string) { write(certificate, read(key)) },
			[]string{"certificate.pem is damaged", join}},
		"other fleet": {func(key, certificate string) {
			k, err := pki.ParseKey(read(key))
			must(err)
			c := other.Sign(t, clustertest.Template("a"), &k.PublicKey)
			write(certificate, pki.EncodeCertificates(c, f.Certificate()))
		}, []string{"certificate.pem", "not issued by this authority", join}},
		"swapped": {func(key, certificate string) {
			k, err := pki.ParseKey(read(key))
			must(err)
			c := f.Sign(t, clustertest.Template("a"), &k.PublicKey)
			write(certificate, pki.EncodeCertificates(f.Certificate(), c))
		}, []string{"certificate.pem", "not a certificate of a fleet's authority", join}},
		"name": {func(key, certificate string) {
			k, err := pki.ParseKey(read(key))
			must(err)
			template := clustertest.Template("a")
			template.DNSNames = []string{"a.example"}
			write(certificate, pki.EncodeCertificates(f.Sign(t, template, &k.PublicKey), f.Certificate()))
		}, []string{"certificate.pem", "not a certificate of a node", join}},
	} {
		dir, _ := joined(t, f, "a")
		c.damage(filepath.Join(dir, "key.pem"), filepath.Join(dir, "certificate.pem"))
		i, err := identity.Load(dir)
		if i != nil || err == nil {
			t.Errorf("%s: %v, %v", name, i, err)
			continue
		}
		for _, want := range append(c.err, dir) {
			if !strings.Contains(err.Error(), want) || len(err.Error()) > 600 {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		if errors.Is(err, fs.ErrNotExist) != strings.Contains(strings.Join(c.err, ""), "no such file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A damaged key is never replaced, and certificates are not saved next to the key of another node.
func TestKeyIsKept(t *testing.T) {
	f := clustertest.New(t)
	dir, _ := joined(t, f, "a")
	_, other := joined(t, f, "b")
	if err := other.Save(dir); err == nil || !strings.Contains(err.Error(), "key of another node") {
		t.Error(err)
	}
	if err := other.Save(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if i, err := identity.Load(dir); err != nil || i.Name() != "a" {
		t.Errorf("%v, %v", i, err)
	}
	file := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.EnsureKey(dir); err == nil {
		t.Error("a damaged key was read")
	}
	if text, err := os.ReadFile(file); string(text) != "damaged" {
		t.Errorf("%q, %v", text, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.EnsureKey(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
}

func TestRenewedForAnother(t *testing.T) {
	f, other := clustertest.New(t), clustertest.New(t)
	i := f.Node(t, "a")
	for name, c := range map[string]*x509.Certificate{
		"name":  f.Sign(t, clustertest.Template("b"), i.PublicKey()),
		"key":   f.Sign(t, clustertest.Template("a"), clustertest.Key(t).Public()),
		"fleet": other.Sign(t, clustertest.Template("a"), i.PublicKey()),
	} {
		if next, err := i.Renewed(c); next != nil || err == nil {
			t.Errorf("%s: %v, %v", name, next, err)
		}
	}
}

func TestTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := clustertest.New(t)
		start := time.Now()
		i := save(t, f, dir, "a")
		if after := i.RenewAt().Sub(start); after < 59*24*time.Hour || after > 60*24*time.Hour {
			t.Errorf("renewed after %v", after)
		}
		if want := start.Add(authority.Life); !i.NotAfter().Equal(want) {
			t.Errorf("expires %v, want %v", i.NotAfter(), want)
		}
		if err := i.CheckTime(start.Add(-2 * time.Hour)); !errors.Is(err, pki.ErrNotYetValid) ||
			!strings.Contains(err.Error(), "set the clock") {
			t.Error(err)
		}
		if err := i.CheckTime(start.Add(-authority.Backdate)); err != nil {
			t.Error(err)
		}
		time.Sleep(authority.Life)
		if _, err := identity.Load(dir); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		expired, err := identity.Load(dir)
		if !errors.Is(err, pki.ErrExpired) || expired == nil || !strings.Contains(err.Error(), "certificate.pem") ||
			!strings.Contains(err.Error(), "join again") {
			t.Fatalf("%v, %v", expired, err)
		}
		c, err := f.Issue(expired.PublicKey(), expired.Name())
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := expired.Renewed(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := renewed.Save(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := identity.Load(dir); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * 366 * 24 * time.Hour)
		if err := renewed.CheckTime(time.Now()); !errors.Is(err, pki.ErrExpired) ||
			!strings.Contains(err.Error(), "authority of the fleet") {
			t.Error(err)
		}
	})
}
