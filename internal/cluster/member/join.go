package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// ErrOtherFleet is returned on a machine that is a node of another fleet.
var ErrOtherFleet = errors.New("this machine is a node of another fleet")

// storeTime bounds what Join does with the store.
const storeTime = 15 * time.Second

var errStoreTime = fmt.Errorf("no answer within %v", storeTime)

// Result describes what Init or Join has done.
type Result struct {
	*Member
	NewFleet bool // the authority was created
	NewNode  bool // this machine was no node
}

// Init makes this machine a node of the fleet whose store it can use, and creates the fleet if there is none. On a
// node of this fleet it changes the settings. location is that of the store, with absolute names of files, which are
// copied. The error is an *InvalidError if a setting cannot be changed so.
func Init(ctx context.Context, dir string, s store.Store, location etcd.Location, c Change) (r Result, err error) {
	held, err := lock(ctx, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	before, next, err := begin(dir, c)
	if err != nil {
		return r, err
	}
	files, err := readContents(location)
	if err != nil {
		return r, err
	}
	if _, err := encodeBundle(location, files); err != nil {
		return r, err
	}
	a, created, err := ensure(ctx, s, before)
	if err != nil {
		return r, err
	}
	i, err := enter(ctx, s, dir, a, before, next.name)
	if err != nil {
		return r, err
	}
	if next.location, err = stage(dir, location, files); err != nil {
		return r, err
	}
	m, err := next.finish(dir, i)
	return Result{m, created, before == nil}, err
}

// Join makes this machine a node of the fleet of a token. On a node of this fleet it renews the certificate and the
// way to the store, and changes the settings. open opens the store, whose authority must be that of the token. The
// error is an *InvalidError if a setting cannot be changed so.
func Join(ctx context.Context, dir string, token jointoken.Token, c Change,
	open func(context.Context, etcd.Location) (store.Store, error)) (r Result, err error) {
	held, err := lock(ctx, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	before, next, err := begin(dir, c)
	if err != nil {
		return r, err
	}
	if before != nil && pki.Hash(before.Current().Authority()) != token.Authority {
		return r, otherFleet(dir, "the token is for another one")
	}
	key, err := identity.EnsureKey(dir)
	if err != nil {
		return r, err
	}
	i, text, err := join.Join(ctx, token, next.name, key)
	if errors.As(err, new(net.Error)) || errors.Is(err, join.ErrNoAnswer) {
		err = fmt.Errorf("%w; the daemon of a node must run there, and this machine must reach it", err)
	}
	if err != nil {
		return r, err
	}
	location, files, err := parseBundle(text)
	if err != nil {
		return r, err
	}
	if next.location, err = stage(dir, location, files); err != nil {
		return r, err
	}
	if err := checkStore(ctx, next.location.In(dir), token, open); err != nil {
		kept := etcd.Location{}
		if before != nil {
			kept = before.node.location
		}
		return r, errors.Join(err, sweep(dir, kept))
	}
	m, err := next.finish(dir, i)
	return Result{m, false, before == nil}, err
}

// begin returns the member that this machine is, or nil, and the node that it becomes.
func begin(dir string, c Change) (before *Member, next node, err error) {
	before, err = Load(dir)
	var named string
	switch {
	case err == nil:
		named, next = before.Name(), before.node
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrIncomplete):
		if i, err := identity.Load(dir); i != nil && (err == nil || errors.Is(err, pki.ErrExpired)) {
			named = i.Name()
		}
	default:
		return nil, next, err
	}
	if next.name, err = c.name(named); err != nil {
		return nil, next, err
	}
	if before != nil && next.name != before.Name() {
		return nil, next, invalid("this machine is node %s already, and cannot become %s: a node keeps its name; to "+
			"give it another one, remove it with coppice node rm %s, remove %s, and let it join again", before.Name(),
			next.name, before.Name(), dir)
	}
	next.settings, err = c.apply(next.settings)
	return before, next, err
}

func otherFleet(dir, problem string) error {
	return fmt.Errorf("%w: %s; to leave it, stop the daemon and remove %s", ErrOtherFleet, problem, dir)
}

// ensure returns the authority of the fleet that a store has, which must be that of a member.
func ensure(ctx context.Context, s store.Store, before *Member) (a *authority.Authority, created bool, err error) {
	if before == nil {
		return authority.Ensure(ctx, s)
	}
	a, err = authority.Load(ctx, s)
	switch {
	case errors.Is(err, authority.ErrNone):
		return nil, false, otherFleet(before.dir, "the store has none")
	case err != nil:
		return nil, false, err
	case !a.Certificate().Equal(before.Current().Authority()):
		return nil, false, otherFleet(before.dir, "the store has another certificate authority")
	}
	return a, false, nil
}

// enter registers the node and returns its identity, with a certificate that is not to be renewed yet.
func enter(ctx context.Context, s store.Store, dir string, a *authority.Authority, before *Member, name string,
) (*identity.Identity, error) {
	key, err := identity.EnsureKey(dir)
	if err != nil {
		return nil, err
	}
	hash, err := pki.KeyHash(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	if err := registry.Join(ctx, s, name, hash); err != nil {
		if errors.Is(err, registry.ErrTaken) {
			err = fmt.Errorf("%w; %s", err, otherName(name))
		}
		return nil, err
	}
	if before != nil && time.Now().Before(before.Current().RenewAt()) {
		return before.Current(), nil
	}
	certificate, err := a.Issue(&key.PublicKey, name)
	if err != nil {
		return nil, err
	}
	return identity.New(key, certificate, a.Certificate())
}

// otherName says what to do if another node has the name.
func otherName(name string) string {
	return "choose another name with --name, or, if the other node is gone for good, remove it with: coppice node rm " +
		name
}

// checkStore checks that this machine can use the store of the fleet of a token.
func checkStore(ctx context.Context, l etcd.Location, token jointoken.Token,
	open func(context.Context, etcd.Location) (store.Store, error)) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTime, errStoreTime)
	defer cancel()
	a, err := readAuthority(ctx, l, open)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%v: %w", l, context.Cause(ctx))
		}
		remedy := "let this machine reach the members of etcd"
		if slices.ContainsFunc(l.Endpoints, IsLocal) {
			remedy = "its URL means each machine itself: run coppice cluster init --store URL again on the node that " +
				"has answered, with a URL that all machines can use, and restart its daemon"
		}
		return fmt.Errorf("the fleet has let this machine in, which cannot use its store: %w; %s, and join again", err,
			remedy)
	}
	if pki.Hash(a.Certificate()) != token.Authority {
		return fmt.Errorf("the store of the node that has answered, %v, has another certificate authority than that "+
			"of the token: it is the store of another fleet; make a token on a node whose store is right", l)
	}
	return nil
}

func readAuthority(ctx context.Context, l etcd.Location,
	open func(context.Context, etcd.Location) (store.Store, error)) (a *authority.Authority, err error) {
	s, err := open(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return authority.Load(ctx, s)
}

// finish writes what a node has, and last its settings.
func (n node) finish(dir string, i *identity.Identity) (*Member, error) {
	if err := i.Save(dir); err != nil {
		return nil, err
	}
	if err := n.write(dir); err != nil {
		return nil, err
	}
	if err := sweep(dir, n.location); err != nil {
		return nil, err
	}
	return Load(dir)
}
