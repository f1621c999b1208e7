package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw is a codec for messages as bytes.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// serve starts a server that may answer what etcd never does. handle gets the name of each method.
func serve(t *testing.T, handle func(method string, s grpc.ServerStream) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(
		func(_ any, s grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(s)
			var request []byte
			if err := s.RecvMsg(&request); err != nil {
				return err
			}
			return handle(method[strings.LastIndexByte(method, '/')+1:], s)
		}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// answers serves one answer to each method.
func answers(t *testing.T, b []byte) *Client {
	return newClient(t, Config{Endpoints: []string{serve(t, func(_ string, s grpc.ServerStream) error {
		return s.SendMsg(b)
	})}})
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// calls are all methods.
func calls(ctx context.Context, c *Client, endpoint string) map[string]error {
	errs := map[string]error{"compact": c.Compact(ctx, 1), "revoke": c.Revoke(ctx, 1)}
	_, errs["get"] = c.Get(ctx, Get{Key: "a", Limit: 1})
	_, errs["txn"] = c.Txn(ctx, Txn{Then: []Op{Get{Key: "a"}}, Else: []Op{Get{Key: "a"}}})
	_, errs["grant"] = c.Grant(ctx, 1)
	_, errs["time to live"] = c.TimeToLive(ctx, 1)
	_, errs["keep alive"] = c.KeepAlive(ctx, 1)
	_, errs["version"] = c.Version(ctx, endpoint)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := c.Watch(ctx, "a", "b", 1)
	if err == nil {
		_, err = w.Receive()
	}
	errs["watch"] = err
	return errs
}

// What is no message, has too much or ends too early is an error of each method, with a code that lets others be asked.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer []byte // nil for none
		want   Error
	}{
		"malformed": {[]byte{0x0a, 0x7f, 1}, Error{codes.Internal, "unexpected EOF"}},
		"no answer": {nil, Error{codes.Internal, ""}},
		"huge":      {make([]byte, maxAnswer+1), ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := serve(t, func(_ string, s grpc.ServerStream) error {
				if c.answer == nil {
					return nil
				}
				return s.SendMsg(c.answer)
			})
			for method, err := range calls(t.Context(), newClient(t, Config{Endpoints: []string{endpoint}}), endpoint) {
				var e Error
				if !errors.As(err, &e) || e.Code != c.want.Code && e.Code != codes.Unavailable ||
					!strings.Contains(e.Text, c.want.Text) {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
}

// Answers that are messages, but not to what was asked.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	wrong := func(name string, err error) {
		t.Helper()
		if e := (Error{}); !errors.As(err, &e) || e.Code != codes.Internal || !strings.Contains(e.Text, "malformed answer") {
			t.Errorf("%s: %v", name, err)
		}
	}
	kvs := []*mvccpb.KeyValue{{Key: []byte("a")}, {Key: []byte("b")}}
	_, err := answers(t, marshal(t, &pb.RangeResponse{Kvs: kvs})).Get(ctx, Get{Key: "a", End: "c", Limit: 1})
	wrong("more keys than the limit", err)
	_, err = answers(t, marshal(t, &pb.RangeResponse{More: true})).Get(ctx, Get{Key: "a", End: "c"})
	wrong("more keys, and none", err)
	got := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
	put := &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
	for name, ops := range map[string][]*pb.ResponseOp{
		"none": nil, "too few": {got}, "too many": {got, put, got}, "others": {put, got}, "unknown": {got, {}},
	} {
		c := answers(t, marshal(t, &pb.TxnResponse{Succeeded: true, Responses: ops}))
		_, err := c.Txn(ctx, Txn{Then: []Op{Get{Key: "a"}, Put{Key: "b"}}})
		wrong("operations: "+name, err)
	}
	_, err = answers(t, nil).Grant(ctx, 1)
	wrong("lease without an ID", err)
	_, err = answers(t, marshal(t, &pb.LeaseKeepAliveResponse{ID: 1})).KeepAlive(ctx, 1)
	if !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("a lease without time: %v", err)
	}
	c := newClient(t, Config{Endpoints: []string{serve(t, func(string, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "etcdserver: \x1b[31m\n"+strings.Repeat("x", 1<<16))
	})}})
	if _, err = c.Get(ctx, Get{Key: "a"}); len(err.Error()) > 2*maxText || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("a text that is too long: %.200q", err)
	}
}

// watching begins a watch at a server that sends these answers, and then waits.
func watching(t *testing.T, messages ...*pb.WatchResponse) *Watch {
	t.Helper()
	c := newClient(t, Config{Endpoints: []string{serve(t, func(_ string, s grpc.ServerStream) error {
		for _, m := range messages {
			if err := s.SendMsg(marshal(t, m)); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	})}})
	w, err := c.Watch(t.Context(), "a", "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func events(revs ...int64) (all []*mvccpb.Event) {
	for _, rev := range revs {
		all = append(all, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("a"), ModRevision: rev}})
	}
	return all
}

// Parts of one answer never split a transaction.
func TestFragments(t *testing.T) {
	t.Parallel()
	h := &pb.ResponseHeader{Revision: 9}
	w := watching(t, &pb.WatchResponse{Header: h, Created: true},
		&pb.WatchResponse{Header: h, Fragment: true, Events: events(1, 1, 2)},
		&pb.WatchResponse{Header: h, Fragment: true, Events: events(2)},
		&pb.WatchResponse{Header: h, Fragment: true, Events: events(2, 3)},
		&pb.WatchResponse{Header: h, Events: events(3, 4)},
		&pb.WatchResponse{Header: h},
		&pb.WatchResponse{Header: h, Canceled: true, CompactRevision: 7})
	for _, want := range [][]int64{{1, 1}, {2, 2, 2}, {3, 3, 4}, nil} {
		c, err := w.Receive()
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range c.Events {
			got = append(got, e.Revision)
		}
		if !slices.Equal(got, want) || c.Revision != 9 {
			t.Errorf("%v at %d, expected %v", got, c.Revision, want)
		}
	}
	if _, err := w.Receive(); !errors.Is(err, ErrCompacted) {
		t.Errorf("at the end: %v", err)
	}
}

func TestEndlessTransaction(t *testing.T) {
	t.Parallel()
	big := events(1)
	big[0].Kv.Value = make([]byte, 1<<20)
	var all []*pb.WatchResponse
	for range maxAnswer>>20 + 2 {
		all = append(all, &pb.WatchResponse{Fragment: true, Events: big})
	}
	if c, err := watching(t, all...).Receive(); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("%d events, %v", len(c.Events), err)
	}
}

// A token is asked for once, shown with each call, and renewed when it is refused.
func TestToken(t *testing.T) {
	t.Parallel()
	var asked, shown atomic.Int64
	refusal := atomic.Pointer[error]{}
	client := newClient(t, Config{User: "u", Password: "p", Endpoints: []string{serve(t,
		func(method string, s grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(s.Context())
			token := strings.Join(md.Get("token"), ",")
			if strings.Join(md.Get("hasleader"), ",") != "true" {
				return status.Error(codes.Unknown, "no leader was asked for")
			}
			if method == "Authenticate" {
				n := asked.Add(1)
				if token != "" {
					return status.Error(codes.Unknown, "shown to get another one")
				}
				return s.SendMsg(marshal(t, &pb.AuthenticateResponse{Token: "t" + string(rune('0'+n))}))
			}
			shown.Add(1)
			if token != "t"+string(rune('0'+asked.Load())) {
				return status.Error(codes.Unknown, "token "+token)
			}
			if err := refusal.Swap(nil); err != nil {
				if method == "Watch" {
					return s.SendMsg(marshal(t, &pb.WatchResponse{Created: true, Canceled: true,
						CancelReason: (*err).Error()}))
				}
				return *err
			}
			switch method {
			case "Range":
				return s.SendMsg(marshal(t, &pb.RangeResponse{}))
			case "LeaseKeepAlive":
				return s.SendMsg(marshal(t, &pb.LeaseKeepAliveResponse{TTL: 1}))
			}
			return s.SendMsg(marshal(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 1}, Events: events(1)}))
		})}})
	get := func() error {
		_, err := client.Get(t.Context(), Get{Key: "a"})
		return err
	}
	keepAlive := func() error {
		_, err := client.KeepAlive(t.Context(), 1)
		return err
	}
	watch := func() error {
		w, err := client.Watch(t.Context(), "a", "b", 1)
		if err == nil {
			_, err = w.Receive()
		}
		return err
	}
	for range 2 {
		if err := errors.Join(get(), keepAlive(), watch()); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() != 1 {
		t.Fatalf("asked for %d tokens", asked.Load())
	}
	for i, err := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		for j, call := range []func() error{get, keepAlive, watch} {
			before := asked.Load()
			refusal.Store(&err)
			got := call()
			if j == 2 { // which its caller repeats
				if !isStale(got) {
					t.Errorf("a watch that was refused with %v has %v", err, got)
				}
				got = call()
			}
			if got != nil || asked.Load() != before+1 {
				t.Errorf("refusal %d of call %d: %v, and %d tokens were asked for", i, j, got, asked.Load()-before)
			}
		}
	}
	// What else is refused is not repeated.
	before, denied := shown.Load(), rpctypes.ErrGRPCPermissionDenied
	refusal.Store(&denied)
	if err := get(); !errors.Is(err, Error{codes.PermissionDenied, "etcdserver: permission denied"}) || shown.Load() != before+1 {
		t.Errorf("permission denied: %v, %d calls", err, shown.Load()-before)
	}
}

// A cluster without users takes a user all the same.
func TestAuthNotEnabled(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	client := newClient(t, Config{User: "u", Password: "p", Endpoints: []string{serve(t,
		func(method string, s grpc.ServerStream) error {
			if method == "Authenticate" {
				asked.Add(1)
				return rpctypes.ErrGRPCAuthNotEnabled
			}
			return s.SendMsg([]byte{})
		})}})
	for range 3 {
		if _, err := client.Get(t.Context(), Get{Key: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked for %d tokens", asked.Load())
	}
}

// A call that was given to no connection notes that.
func TestNoteSent(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	refuses := serve(t, func(string, grpc.ServerStream) error { return status.Error(codes.Unavailable, "later") })
	works := serve(t, func(_ string, s grpc.ServerStream) error { return s.SendMsg([]byte{}) })
	for name, c := range map[string]struct {
		config Config
		want   bool
	}{
		"works":             {Config{Endpoints: []string{works}}, true},
		"refuses":           {Config{Endpoints: []string{refuses}}, true},
		"no member":         {Config{Endpoints: []string{closed.Addr().String()}}, false},
		"no TLS":            {Config{Endpoints: []string{works}, TLS: &tls.Config{}}, false},
		"no token":          {Config{Endpoints: []string{refuses}, User: "u", Password: "p"}, false},
		"one of two, works": {Config{Endpoints: []string{closed.Addr().String(), works}}, true},
	} {
		var sent atomic.Bool
		_, err := newClient(t, c.config).Get(NoteSent(t.Context(), &sent), Get{Key: "a"})
		if sent.Load() != c.want || (err == nil) != strings.Contains(name, "works") {
			t.Errorf("%s: sent %v, %v", name, sent.Load(), err)
		}
	}
}
