package rpc

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// numbers are also those that take the most bytes.
func numbers() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 200), rapid.Int64())
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.StringN(1, 5, -1), rapid.StringN(100, 200, -1))
}

func values() *rapid.Generator[[]byte] {
	return rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 1, 300))
}

// drawOp returns an operation, and the same as etcd's own message.
func drawOp(t *rapid.T) (Op, *pb.RequestOp) {
	switch rapid.IntRange(0, 2).Draw(t, "op") {
	case 0:
		g := Get{texts().Draw(t, "key"), texts().Draw(t, "end"), numbers().Draw(t, "limit"), numbers().Draw(t, "rev"),
			rapid.Bool().Draw(t, "keysOnly")}
		return g, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
			Key: []byte(g.Key), RangeEnd: []byte(g.End), Limit: g.Limit, Revision: g.Revision, KeysOnly: g.KeysOnly}}}
	case 1:
		p := Put{texts().Draw(t, "key"), values().Draw(t, "value"), LeaseID(numbers().Draw(t, "lease")),
			rapid.Bool().Draw(t, "keepLease")}
		return p, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: []byte(p.Key), Value: p.Value, Lease: int64(p.Lease), IgnoreLease: p.KeepLease}}}
	}
	d := Delete{texts().Draw(t, "key"), texts().Draw(t, "end")}
	return d, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
		Key: []byte(d.Key), RangeEnd: []byte(d.End)}}}
}

func drawCompare(t *rapid.T) (Compare, *pb.Compare) {
	key := texts().Draw(t, "key")
	want := &pb.Compare{Key: []byte(key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{}}
	switch rapid.IntRange(0, 2).Draw(t, "compare") {
	case 0:
		value := texts().Draw(t, "value")
		want.Target, want.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: []byte(value)}
		return HasValue(key, value), want
	case 1:
		rev := numbers().Draw(t, "rev")
		want.TargetUnion = &pb.Compare_ModRevision{ModRevision: rev}
		return HasRevision(key, rev), want
	}
	return IsMissing(key), want
}

// Requests are those that etcd's own messages make, to the byte.
func TestRequests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		op, wantOp := drawOp(t)
		checkRequest(t, op, reflect.ValueOf(wantOp.Request).Elem().Field(0).Interface().(proto.Message))
		var txn Txn
		want := &pb.TxnRequest{}
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			c, w := drawCompare(t)
			txn.If, want.Compare = append(txn.If, c), append(want.Compare, w)
		}
		for range rapid.IntRange(0, 3).Draw(t, "then") {
			op, w := drawOp(t)
			txn.Then, want.Success = append(txn.Then, op), append(want.Success, w)
		}
		for range rapid.IntRange(0, 3).Draw(t, "else") {
			op, w := drawOp(t)
			txn.Else, want.Failure = append(txn.Else, op), append(want.Failure, w)
		}
		checkRequest(t, txn, want)
		n := numbers().Draw(t, "n")
		checkRequest(t, numberRequest(n), &pb.CompactionRequest{Revision: n})
		checkRequest(t, numberRequest(n), &pb.LeaseGrantRequest{TTL: n})
		checkRequest(t, numberRequest(n), &pb.LeaseRevokeRequest{ID: n})
		checkRequest(t, numberRequest(n), &pb.LeaseTimeToLiveRequest{ID: n})
		checkRequest(t, numberRequest(n), &pb.LeaseKeepAliveRequest{ID: n})
		checkRequest(t, emptyRequest{}, &pb.StatusRequest{})
		user, password := texts().Draw(t, "user"), texts().Draw(t, "password")
		checkRequest(t, authenticateRequest{user, password}, &pb.AuthenticateRequest{Name: user, Password: password})
		checkRequest(t, watchRequest{user, password, n}, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(user), RangeEnd: []byte(password), StartRevision: n,
				Fragment: true}}})
		checkRequest(t, progressRequest{}, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
			ProgressRequest: &pb.WatchProgressRequest{}}})
	})
}

func checkRequest(t *rapid.T, r request, want proto.Message) {
	t.Helper()
	// A prefix shows that it is added, not written over.
	b := r.appendTo([]byte("before"))[len("before"):]
	expected, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, expected) {
		t.Fatalf("%#v is %x, expected %x", r, b, expected)
	}
}

// decoders are all of them, each with the message of etcd that it reads, and with what it makes of that.
var decoders = []struct {
	name string
	new  func() answer
	pb   func() proto.Message
	want func(proto.Message) answer
}{
	{"range", func() answer { return new(GetAnswer) }, func() proto.Message { return new(pb.RangeResponse) },
		func(m proto.Message) answer { a := getAnswer(m.(*pb.RangeResponse)); return &a }},
	{"txn", func() answer { return new(TxnAnswer) }, func() proto.Message { return new(pb.TxnResponse) },
		func(m proto.Message) answer { return txnAnswer(m.(*pb.TxnResponse)) }},
	{"compact", func() answer { return new(emptyAnswer) }, func() proto.Message { return new(pb.CompactionResponse) },
		func(proto.Message) answer { return new(emptyAnswer) }},
	{"revoke", func() answer { return new(emptyAnswer) }, func() proto.Message { return new(pb.LeaseRevokeResponse) },
		func(proto.Message) answer { return new(emptyAnswer) }},
	{"grant", func() answer { return &numberAnswer{field: 2} },
		func() proto.Message { return new(pb.LeaseGrantResponse) },
		func(m proto.Message) answer {
			r := m.(*pb.LeaseGrantResponse)
			return &numberAnswer{header(r.Header), 2, r.ID}
		}},
	{"time to live", func() answer { return &numberAnswer{field: 3} },
		func() proto.Message { return new(pb.LeaseTimeToLiveResponse) },
		func(m proto.Message) answer {
			r := m.(*pb.LeaseTimeToLiveResponse)
			return &numberAnswer{header(r.Header), 3, r.TTL}
		}},
	{"keep alive", func() answer { return &numberAnswer{field: 3} },
		func() proto.Message { return new(pb.LeaseKeepAliveResponse) },
		func(m proto.Message) answer {
			r := m.(*pb.LeaseKeepAliveResponse)
			return &numberAnswer{header(r.Header), 3, r.TTL}
		}},
	{"status", func() answer { return new(statusAnswer) }, func() proto.Message { return new(pb.StatusResponse) },
		func(m proto.Message) answer { return &statusAnswer{m.(*pb.StatusResponse).Version} }},
	{"authenticate", func() answer { return new(authenticateAnswer) },
		func() proto.Message { return new(pb.AuthenticateResponse) },
		func(m proto.Message) answer { return &authenticateAnswer{m.(*pb.AuthenticateResponse).Token} }},
	{"watch", func() answer { return new(watchAnswer) }, func() proto.Message { return new(pb.WatchResponse) },
		func(m proto.Message) answer { return watchOf(m.(*pb.WatchResponse)) }},
}

func header(h *pb.ResponseHeader) Header { return Header{h.GetRevision(), h.GetRaftTerm()} }

func keyValue(kv *mvccpb.KeyValue) KeyValue {
	return KeyValue{string(kv.GetKey()), kv.GetValue(), kv.GetModRevision(), LeaseID(kv.GetLease())}
}

func getAnswer(r *pb.RangeResponse) GetAnswer {
	a := GetAnswer{Header: header(r.GetHeader()), More: r.GetMore()}
	for _, kv := range r.GetKvs() {
		a.Keys = append(a.Keys, keyValue(kv))
	}
	return a
}

func txnAnswer(r *pb.TxnResponse) *TxnAnswer {
	a := &TxnAnswer{Header: header(r.Header), Succeeded: r.Succeeded}
	for _, op := range r.Responses {
		a.Got = append(a.Got, getAnswer(op.GetResponseRange()))
		switch op.Response.(type) {
		case nil:
			a.ops = append(a.ops, 0)
		case *pb.ResponseOp_ResponseRange:
			a.ops = append(a.ops, Get{}.union())
		case *pb.ResponseOp_ResponsePut:
			a.ops = append(a.ops, Put{}.union())
		case *pb.ResponseOp_ResponseDeleteRange:
			a.ops = append(a.ops, Delete{}.union())
		case *pb.ResponseOp_ResponseTxn:
			a.ops = append(a.ops, 4)
		}
	}
	return a
}

func watchOf(r *pb.WatchResponse) *watchAnswer {
	a := &watchAnswer{Header: header(r.Header), created: r.Created, canceled: r.Canceled, compacted: r.CompactRevision,
		reason: r.CancelReason, fragment: r.Fragment}
	for _, e := range r.Events {
		a.events = append(a.events, Event{e.Type == mvccpb.Event_DELETE, keyValue(e.Kv)})
	}
	return a
}

func differ(got, want answer) string {
	return cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty())
}

func drawHeader(t *rapid.T) *pb.ResponseHeader {
	if rapid.Bool().Draw(t, "no header") {
		return nil
	}
	return &pb.ResponseHeader{ClusterId: rapid.Uint64().Draw(t, "cluster"), MemberId: rapid.Uint64().Draw(t, "member"),
		Revision: numbers().Draw(t, "rev"), RaftTerm: uint64(numbers().Draw(t, "term"))}
}

func drawKeyValue(t *rapid.T) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(texts().Draw(t, "key")), CreateRevision: numbers().Draw(t, "created"),
		ModRevision: numbers().Draw(t, "rev"), Version: numbers().Draw(t, "version"), Value: values().Draw(t, "value"),
		Lease: numbers().Draw(t, "lease")}
}

func drawRange(t *rapid.T) *pb.RangeResponse {
	r := &pb.RangeResponse{Header: drawHeader(t), More: rapid.Bool().Draw(t, "more"), Count: numbers().Draw(t, "count")}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		r.Kvs = append(r.Kvs, drawKeyValue(t))
	}
	return r
}

func drawTxn(t *rapid.T) *pb.TxnResponse {
	r := &pb.TxnResponse{Header: drawHeader(t), Succeeded: rapid.Bool().Draw(t, "succeeded")}
	for range rapid.IntRange(0, 4).Draw(t, "responses") {
		op := &pb.ResponseOp{}
		switch rapid.IntRange(0, 4).Draw(t, "response") {
		case 0:
			op.Response = &pb.ResponseOp_ResponseRange{ResponseRange: drawRange(t)}
		case 1:
			op.Response = &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: drawHeader(t)}}
		case 2:
			op.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{
				Deleted: numbers().Draw(t, "deleted"), PrevKvs: drawRange(t).Kvs}}
		case 3:
			op.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Succeeded: true}}
		}
		r.Responses = append(r.Responses, op)
	}
	return r
}

func drawWatch(t *rapid.T) *pb.WatchResponse {
	w := &pb.WatchResponse{Header: drawHeader(t), WatchId: numbers().Draw(t, "id"),
		Created: rapid.Bool().Draw(t, "created"), Canceled: rapid.Bool().Draw(t, "canceled"),
		CompactRevision: numbers().Draw(t, "compacted"), CancelReason: texts().Draw(t, "reason"),
		Fragment: rapid.Bool().Draw(t, "fragment")}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		w.Events = append(w.Events, &mvccpb.Event{Type: mvccpb.Event_EventType(rapid.IntRange(0, 1).Draw(t, "type")),
			Kv: drawKeyValue(t), PrevKv: drawKeyValue(t)})
	}
	return w
}

// Answers are read as etcd has meant them.
func TestAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := numbers().Draw(t, "n")
		for i, m := range []proto.Message{
			drawRange(t), drawTxn(t), &pb.CompactionResponse{Header: drawHeader(t)},
			&pb.LeaseRevokeResponse{Header: drawHeader(t)},
			&pb.LeaseGrantResponse{Header: drawHeader(t), ID: n, TTL: 5, Error: "x"},
			&pb.LeaseTimeToLiveResponse{Header: drawHeader(t), ID: 5, TTL: n, GrantedTTL: 6, Keys: [][]byte{{1}}},
			&pb.LeaseKeepAliveResponse{Header: drawHeader(t), ID: 5, TTL: n},
			&pb.StatusResponse{Header: drawHeader(t), Version: texts().Draw(t, "version"), DbSize: 7, Errors: []string{"x"}},
			&pb.AuthenticateResponse{Header: drawHeader(t), Token: texts().Draw(t, "token")}, drawWatch(t),
		} {
			b, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			d := decoders[i]
			got := d.new()
			if err := got.decode(b); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			clear(b) // which belongs to gRPC
			if diff := differ(got, d.want(m)); diff != "" {
				t.Fatalf("%s: %s", d.name, diff)
			}
		}
	})
}

// FuzzDecode compares all decoders with those of etcd's own messages. These refuse more, such as texts that are no UTF-8.
func FuzzDecode(f *testing.F) {
	for _, m := range []proto.Message{
		&pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 5, RaftTerm: 1 << 40}, More: true,
			Kvs: []*mvccpb.KeyValue{{Key: []byte("a"), ModRevision: -1, Value: []byte("v"), Lease: 8}, {}}},
		&pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{}, {Response: &pb.ResponseOp_ResponseRange{
			ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{}}}}}}},
		&pb.WatchResponse{Created: true, CancelReason: "x", Events: []*mvccpb.Event{{Type: 1}, {Kv: &mvccpb.KeyValue{}}}},
		&pb.StatusResponse{Version: "3.5.13"},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}) // longer than there is
	f.Add([]byte{0x0d, 1, 2, 3, 4, 0x12, 0, 0x10, 1, 0x18, 1})                // fixed, and what is known
	f.Add([]byte{0x0b, 0x0c, 0x12, 0, 0x10, 1, 0x18, 1})                      // a group, and what is known
	f.Add([]byte{0x1a, 6, 0x0a, 2, 0x12, 0, 0x12, 0})                         // an operation that is two
	f.Add([]byte{0x1a, 8, 0x12, 0, 0x0a, 0, 0x0a, 2, 0x12, 0})                // and three, of which two are one
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range decoders {
			got, m := d.new(), d.pb()
			err := got.decode(b)
			if proto.Unmarshal(b, m) != nil {
				continue
			}
			if err != nil {
				t.Errorf("%s: %x is not read: %v", d.name, b, err)
			} else if diff := differ(got, d.want(m)); diff != "" {
				t.Errorf("%s: %x: %s", d.name, b, diff)
			}
		}
	})
}

// The errors are those of etcd.
func TestErrors(t *testing.T) {
	t.Parallel()
	for ours, theirs := range map[Error]error{
		ErrNoSpace: rpctypes.ErrGRPCNoSpace, ErrTooManyRequests: rpctypes.ErrGRPCRequestTooManyRequests,
		ErrTooManyOps: rpctypes.ErrGRPCTooManyOps, ErrRequestTooLarge: rpctypes.ErrGRPCRequestTooLarge,
		ErrLeaseNotFound: rpctypes.ErrGRPCLeaseNotFound, ErrCompacted: rpctypes.ErrGRPCCompacted,
		ErrFutureRevision: rpctypes.ErrGRPCFutureRev, ErrLeaderChanged: rpctypes.ErrGRPCLeaderChanged,
		ErrAuthFailed: rpctypes.ErrGRPCAuthFailed, ErrAuthNotEnabled: rpctypes.ErrGRPCAuthNotEnabled,
		ErrInvalidToken: rpctypes.ErrGRPCInvalidAuthToken, ErrOldAuthRevision: rpctypes.ErrGRPCAuthOldRevision,
		ErrUserEmpty: rpctypes.ErrGRPCUserEmpty,
	} {
		if err := toError(theirs); !errors.Is(err, ours) || err.Error() != rpctypes.Error(theirs).Error() {
			t.Errorf("%v is %v", theirs, err)
		}
	}
}

// A message with millions of nothings does not take a multiple of its size.
func TestTooMany(t *testing.T) {
	t.Parallel()
	repeat := func(n int, what ...byte) []byte { return bytes.Repeat(what, n) }
	// One operation that has read all keys but one, and one that has read two.
	reads := appendMessage(nil, 3, func(b []byte) []byte {
		return appendMessage(b, 1, func(b []byte) []byte { return append(b, repeat(maxItems-1, 0x12, 0)...) })
	})
	reads = append(reads, 0x1a, 6, 0x0a, 4, 0x12, 0, 0x12, 0)
	for name, c := range map[string]struct {
		into answer
		b    []byte
	}{
		"keys": {new(GetAnswer), repeat(maxItems+1, 0x12, 0)}, "operations": {new(TxnAnswer), repeat(maxItems+1, 0x1a, 0)},
		"keys of operations": {new(TxnAnswer), reads}, "events": {new(watchAnswer), repeat(maxItems+1, 0x5a, 0)},
	} {
		if err := c.into.decode(c.b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := new(GetAnswer).decode(repeat(maxItems, 0x12, 0)); err != nil {
		t.Error(err)
	}
}
