package etcd_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// A store that cannot be opened says in one sentence which members it has asked, what is wrong and what to do.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	plain := etcdtest.Start(t, etcdtest.Options{Members: 1}).Endpoints()[0]
	secure, stranger := etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true}),
		etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true})
	users := etcdtest.Start(t, etcdtest.Options{Members: 1})
	withUser(t, users).grant("p/", clientv3.PermissionType(clientv3.PermRead))
	silent := etcdtest.NewProxy(t, plain)
	silent.Silence()
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	free := listen(t, func(net.Conn) {})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	web := listen(t, func(c net.Conn) {
		buffer := make([]byte, 1000)
		c.Read(buffer)
		fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n%s", http.StatusText(400))
	})
	f, hosts := secure.Files, secure.Endpoints()[0]
	pair := "&cert=" + f.Cert + "&key=" + f.Key
	_, port, _ := net.SplitHostPort(etcdtest.NewProxy(t, hosts).Address)
	for name, tt := range map[string]struct{ url, want string }{
		"nothing listens": {"etcd://" + closed.Addr().String() + "/p",
			"nothing listens on 127.0.0.1:"},
		"no such host": {"etcd://nowhere.invalid/p",
			"no host has the name nowhere.invalid"},
		"silent": {"etcd://" + silent.Address + "/p",
			"what accepts the connection says nothing"},
		"it hangs up": {"etcd://" + free + "/p",
			"check the port, whether it wants TLS"},
		"a web server": {"etcd://" + web + "/p",
			"what answers is not etcd"},
		"a web server, TLS": {"etcds://" + web + "/p",
			"does not speak TLS"},
		"TLS is missing": {"etcd://" + hosts + "/p",
			"whether it wants TLS (etcds://)"},
		"TLS is too much": {"etcds://" + plain + "/p",
			"check the port, whether it wants TLS"},
		"no CA": {"etcds://" + hosts + "/p?" + pair[1:],
			"name its certificate with ca=FILE"},
		"another CA": {"etcds://" + hosts + "/p?ca=" + stranger.Files.CA + pair,
			"name its certificate with ca=FILE"},
		"another name": {"etcds://localhost:" + port + "/p?ca=" + f.CA + pair,
			"the certificate of etcd is not valid here: certificate is not valid for any names"},
		"no certificate": {"etcds://" + hosts + "/p?ca=" + f.CA,
			"add cert=FILE and key=FILE"},
		"another certificate": {"etcds://" + hosts + "/p?ca=" + f.CA + "&cert=" + stranger.Files.Cert + "&key=" +
			stranger.Files.Key,
			"client certificate"},
		"no user": {users.URL("p"),
			"write its name and @ before the members"},
		"wrong password": {"etcd://shop@" + users.Endpoints()[0] + "/p?password_file=" + file("wrong", "w"),
			"no user shop with this password"},
		"no such user": {"etcd://none@" + users.Endpoints()[0] + "/p?password_file=" + file("wrong", "w"),
			"no user none with this password"},
		"only to read": {"etcd://shop@" + users.Endpoints()[0] + "/p?password_file=" + file("right", "s"),
			"user shop needs a role that may read and write all keys that begin with p/"},
		"another prefix": {"etcd://shop@" + users.Endpoints()[0] + "/q?password_file=" + file("right", "s"),
			"all keys that begin with q/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t.Context(), tt.url)
			if err == nil {
				s.Close()
				t.Fatal("it is open")
			}
			// A member that closes a connection at once may end it before it was read why.
			lost := name == "no certificate" && strings.Contains(err.Error(), "which client certificates it takes")
			if !strings.Contains(err.Error(), tt.want) && !lost {
				t.Errorf("%v; want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), dir) {
				t.Errorf("it has names of files: %v", err)
			}
			for _, jargon := range []string{"rpc error", "desc =", "code =", "transport:", "Unavailable", "context"} {
				if strings.Contains(err.Error(), jargon) {
					t.Errorf("it says %q", jargon)
				}
			}
		})
	}
}
