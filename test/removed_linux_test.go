package test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// users are those of an etcd that asks for passwords. A user has its name as the password.
type users struct {
	t     *testing.T
	admin *clientv3.Client
}

// newUsers makes an etcd ask for passwords. Users with the role fleet may read and write what is below a prefix.
func newUsers(t *testing.T, c *etcdtest.Cluster, prefix string) *users {
	t.Helper()
	login := func(user string) *users {
		admin, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(), Username: user,
			Password: user})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.Close() })
		return &users{t: t, admin: admin}
	}
	anyone := login("")
	_, roleErr := anyone.admin.RoleAdd(t.Context(), "fleet")
	_, rightsErr := anyone.admin.RoleGrantPermission(t.Context(), "fleet", prefix+"/",
		clientv3.GetPrefixRangeEnd(prefix+"/"), clientv3.PermissionType(clientv3.PermReadWrite))
	_, rootErr := anyone.admin.RoleAdd(t.Context(), "root")
	if err := errors.Join(roleErr, rightsErr, rootErr); err != nil {
		t.Fatal(err)
	}
	anyone.add("root", "root")
	if _, err := anyone.admin.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return login("root")
}

func (u *users) add(name, role string) {
	u.t.Helper()
	_, addErr := u.admin.UserAdd(u.t.Context(), name, name)
	_, grantErr := u.admin.UserGrantRole(u.t.Context(), name, role)
	if err := errors.Join(addErr, grantErr); err != nil {
		u.t.Fatal(err)
	}
}

// url returns a location with a user.
func (u *users) url(location, user string) string {
	u.t.Helper()
	file := filepath.Join(u.t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(user+"\n"), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return strings.Replace(location, "etcd://", "etcd://"+user+"@", 1) + "?password_file=" + file
}

// open opens a store as a user.
func (u *users) open(location, user string) (*etcd.Store, error) {
	u.t.Helper()
	l, err := etcd.ParseLocation(u.url(location, user))
	if err != nil {
		return nil, err
	}
	s, err := etcd.Open(u.t.Context(), l, slog.New(slog.DiscardHandler))
	if err == nil {
		u.t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// The steps of docs/fleet.md lock a machine out that was removed, with what it knows of etcd. The agents on the others
// go on.
func TestMachineIsRemoved(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, Args: []string{"--bcrypt-cost", "4"}})
	m := newMachines(t, c, 3)
	u := newUsers(t, c, m.prefix)
	u.add("old", "fleet")
	m.store = sync.OnceValue(func() *etcd.Store {
		s, err := u.open(fmt.Sprintf("etcd://%s/%s", c.Endpoints()[0], m.prefix), "root")
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	locations := make(map[string]string)
	for _, n := range m.all {
		n.store, locations[n.name] = m.store, n.url
		n.url = u.url(n.url, "old")
	}
	m.start()
	first, second, gone := m.all[0], m.all[1], m.all[2]
	second.do("task", "add", "to be kept")
	gone.do("down", "--local")
	gone.checkEnded()
	second.says([]string{"node", "rm", "n3"}, "node n3 is removed", "keeps the password of user old of etcd",
		"etcdctl user delete old")
	m.awaitOn(first, second)
	before := m.last()

	u.add("new", "fleet")
	for _, n := range []*machine{second, first} {
		n.do(initArgs("--store", u.url(locations[n.name], "new"))...)
		n.do("down", "--local", "--keep-agents")
		n.do("up", "-d")
		await(t, moved, func() string {
			if info := n.list()[n.name]; info.State != nodes.Ready {
				return fmt.Sprintf("node %s is %s", n.name, info.State)
			}
			return ""
		})
	}
	if _, err := u.admin.UserDelete(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}

	if _, err := u.open(locations[gone.name], "old"); err == nil {
		t.Error("the machine that was removed gets into etcd")
	}
	gone.wantFailure(1, []string{"up", "-d"}, "etcd has no user old with this password")
	gone.do("down", "--local")
	gone.checkEnded()
	m.unchanged(before)
	for i, n := range []*machine{first, second} {
		n.says([]string{"task", "ls"}, "to be kept")
		n.do("belief", "set", "calm", fmt.Sprint("x=", i))
	}
	first.do("stop", "calm")
	first.do("start", "calm")
	m.awaitOn(first, second)
	second.do("down")
	m.checkDown()
}
