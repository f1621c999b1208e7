// Package rpc speaks the gRPC API of etcd, version 3: as much of it as the store needs, with messages of its own. Their
// fields and numbers are those of rpc.proto and kv.proto of etcd.
//
// The official client depends on generated messages for the whole API, which register themselves when a program starts.
// Coppice is one binary, so each of its processes would pay for that: 0.83 MB and 1.4 ms, also those next to agents,
// which never speak to etcd. The messages of this package cost nothing until they are used.
//
// A call is made once, at a member whose connection works; another attempt goes to the next member. Only a call that
// etcd has refused because of its token is repeated, with a new one.
package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// Times. A client must notice that a member or the way to it is gone, without an answer from it, in far less than
// the time of a lease.
const (
	pingInterval = 10 * time.Second // gRPC takes no less
	pingTimeout  = 2 * time.Second
	connectTime  = 2 * time.Second // for one connection
)

// maxAnswer bounds a message from etcd. The largest that is needed is one value with its key, or one transaction in a
// watch: 1.5 MiB unless etcd was started with --max-request-bytes. Get fails with ErrTooLarge if there is more.
const maxAnswer = 16 << 20

// reconnect sets the pauses between attempts to reach a member. The default of gRPC grows to 2 minutes.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
	},
	MinConnectTimeout: connectTime,
}

// Config says where etcd is and how to get in.
type Config struct {
	Endpoints      []string    // host:port of members, at least one
	TLS            *tls.Config // nil for none
	User, Password string      // empty for none

	dial func(ctx context.Context, address string) (net.Conn, error) // nil: over TCP
}

// Client is a client of a cluster. Its methods are safe for concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	options []grpc.DialOption
	login   login
}

// New returns a client, which connects by itself. The caller closes it.
func New(c Config) (*Client, error) {
	creds := insecure.NewCredentials()
	if c.TLS != nil {
		creds = credentials.NewTLS(c.TLS)
	}
	cl := &Client{
		login: login{user: c.User, password: c.Password, asking: make(chan struct{}, 1)},
		options: []grpc.DialOption{
			grpc.WithTransportCredentials(creds),
			grpc.WithConnectParams(reconnect),
			// etcd ends connections on which it gets pings while there are no calls. The first call after a rest begins
			// with one.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer)),
		},
	}
	if c.dial != nil {
		cl.options = append(cl.options, grpc.WithContextDialer(c.dial))
	}
	const scheme = "etcd"
	members := manual.NewBuilderWithScheme(scheme)
	var state resolver.State
	for _, e := range c.Endpoints {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: e, ServerName: e}},
		})
	}
	members.InitialState(state)
	var err error
	cl.conn, err = grpc.NewClient(scheme+":///"+c.Endpoints[0], append(cl.options, grpc.WithResolvers(members),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))...)
	return cl, err
}

// Close ends all connections, and with them all calls.
func (c *Client) Close() error { return c.conn.Close() }

type sentKey struct{}

// NoteSent returns a context whose calls note whether a request has been given to a connection, so that a member may
// have got it. Streams do not note that.
func NoteSent(ctx context.Context, sent *atomic.Bool) context.Context {
	return context.WithValue(ctx, sentKey{}, sent)
}

// call makes a call, and once more if its token was refused.
func (c *Client) call(ctx context.Context, conn *grpc.ClientConn, method string, req request, into answer) error {
	return c.authorized(ctx, func(ctx context.Context) error {
		sent, err := invoke(ctx, conn, method, req, into)
		if noted, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok && sent {
			noted.Store(true)
		}
		return err
	})
}

// invoke makes a call once.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, req request, into answer) (sent bool,
	err error) {
	var to peer.Peer // stays empty unless there was a connection to use
	// Waiting for one would hide why there is none.
	err = conn.Invoke(ctx, method, req, into, grpc.Peer(&to), grpc.WaitForReady(false))
	return err == nil || to.Addr != nil, toError(err)
}

// withMetadata asks for a member that has a leader, and shows it a token.
func withMetadata(ctx context.Context, token string) context.Context {
	md := metadata.MD{"hasleader": {"true"}}
	if token != "" {
		md["token"] = []string{token}
	}
	return metadata.NewOutgoingContext(ctx, md)
}
