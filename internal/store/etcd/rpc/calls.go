package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// Get reads a key or a range. It fails with ErrTooLarge if that is too much for one answer.
func (c *Client) Get(ctx context.Context, g Get) (GetAnswer, error) {
	var a GetAnswer
	err := c.call(ctx, c.conn, "/etcdserverpb.KV/Range", g, &a)
	if err == nil && (g.Limit > 0 && int64(len(a.Keys)) > g.Limit || a.More && len(a.Keys) == 0) {
		err = malformed("not as many keys as were asked for")
	}
	return a, err
}

// Txn makes a transaction.
func (c *Client) Txn(ctx context.Context, t Txn) (TxnAnswer, error) {
	var a TxnAnswer
	if err := c.call(ctx, c.conn, "/etcdserverpb.KV/Txn", t, &a); err != nil {
		return a, err
	}
	ops := t.Then
	if !a.Succeeded {
		ops = t.Else
	}
	if !a.done(ops) {
		return a, malformed("not that of each operation of the transaction")
	}
	return a, nil
}

// Compact has etcd drop what was changed before a revision.
func (c *Client) Compact(ctx context.Context, rev int64) error {
	return c.call(ctx, c.conn, "/etcdserverpb.KV/Compact", numberRequest(rev), &emptyAnswer{})
}

// Grant makes a lease that ends after some seconds, unless it is kept alive.
func (c *Client) Grant(ctx context.Context, seconds int64) (LeaseID, error) {
	a := numberAnswer{field: 2}
	err := c.call(ctx, c.conn, "/etcdserverpb.Lease/LeaseGrant", numberRequest(seconds), &a)
	if err == nil && a.n == 0 {
		err = malformed("a lease without an ID")
	}
	return LeaseID(a.n), err
}

// Revoke ends a lease, and deletes the keys that are attached to it.
func (c *Client) Revoke(ctx context.Context, id LeaseID) error {
	return c.call(ctx, c.conn, "/etcdserverpb.Lease/LeaseRevoke", numberRequest(id), &emptyAnswer{})
}

// TimeToLive returns how many seconds a lease has left, at least. It is negative if the lease has ended.
func (c *Client) TimeToLive(ctx context.Context, id LeaseID) (seconds int64, err error) {
	a := numberAnswer{field: 3}
	err = c.call(ctx, c.conn, "/etcdserverpb.Lease/LeaseTimeToLive", numberRequest(id), &a)
	return a.n, err
}

// KeepAlive renews a lease once, for its whole time, and returns the term of the leader that has done it.
func (c *Client) KeepAlive(ctx context.Context, id LeaseID) (term uint64, err error) {
	a := numberAnswer{field: 3}
	err = c.authorized(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx) // ends the stream
		defer cancel()
		stream, err := c.conn.NewStream(ctx, &bidirectional, "/etcdserverpb.Lease/LeaseKeepAlive")
		if err != nil {
			return toError(err)
		}
		// An error of sending is only that the stream has ended; receiving says why.
		_ = stream.SendMsg(numberRequest(id))
		return toError(stream.RecvMsg(&a))
	})
	if err == nil && a.n <= 0 {
		err = ErrLeaseNotFound
	}
	return a.Term, err
}

// Version returns the version of the member at an endpoint.
func (c *Client) Version(ctx context.Context, endpoint string) (string, error) {
	conn, err := grpc.NewClient("passthrough:///"+endpoint, c.options...)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var a statusAnswer
	err = c.call(ctx, conn, "/etcdserverpb.Maintenance/Status", emptyRequest{}, &a)
	return a.version, err
}
