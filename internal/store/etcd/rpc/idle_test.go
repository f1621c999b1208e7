package rpc

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
)

// A connection at rest stays, although etcd allows no pings on it.
func TestConnectionAtRest(t *testing.T) {
	answer := marshal(t, &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}})
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 20)
		server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: 5 * time.Second}, // that of etcd
		), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			var request []byte
			if err := s.RecvMsg(&request); err != nil {
				return err
			}
			return s.SendMsg(answer)
		}))
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		var dialed atomic.Int64
		c, err := New(Config{
			Endpoints: []string{"127.0.0.1:2379"},
			dial: func(ctx context.Context, _ string) (net.Conn, error) {
				dialed.Add(1)
				return l.DialContext(ctx)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := c.Get(t.Context(), Get{Key: "a", Limit: 1}); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Minute)
		}
		if n := dialed.Load(); n != 1 {
			t.Errorf("%d connections were made, expected 1", n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
