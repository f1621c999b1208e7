package etcd

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// CheckRights returns an error unless the user may read and write everything that a store has. It changes nothing.
func CheckRights(ctx context.Context, s *Store) error {
	if err := s.conn.enter(ctx); err != nil {
		return err
	}
	defer s.conn.calls.Done()
	var refused []string
	var why error
	for _, part := range []string{
		"k/", "n/", "l/", "w/", "epoch", "compacted", importing, importer, imported, "format",
	} {
		err := checkRight(ctx, s.conn, s.conn.prefix+part)
		switch {
		case code(err) == codes.PermissionDenied:
			refused, why = append(refused, s.conn.prefix+part), err
		case err != nil:
			return s.conn.translate("checking the rights of the user in", err)
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("the user may not use %s: %w", strings.Join(refused, ", "),
		s.conn.translate("checking the rights of the user in", why))
}

// checkRight checks the rights for a key, or for all below one that ends with a slash. etcd wants those for both
// branches of a transaction, whichever it takes.
func checkRight(ctx context.Context, c *conn, key string) error {
	get, one := rpc.Get{Key: key, KeysOnly: true, Limit: 1}, key
	if below, ok := strings.CutSuffix(key, "/"); ok {
		get.End, one = below+"0", key+"right" // '0' is the character after '/'
	}
	return c.retry(ctx, func(ctx context.Context) error {
		_, err := c.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.HasValue(c.prefix+"format", rand.Text())}, // which does not hold
			Then: []rpc.Op{rpc.Put{Key: one}},
			Else: []rpc.Op{get},
		})
		return err
	})
}
