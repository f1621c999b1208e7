package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

func testApply(t *testing.T, b Backend) {
	ctx, s := context.Background(), b.open(t)

	r1 := must(t, s, put("a", "1"), put("b/c", "2"))
	if r1 == 0 {
		t.Fatal("the first change has revision 0")
	}
	if got := text(all(t, s, "")); got != "a=1 b/c=2" {
		t.Fatalf("after two puts: %s", got)
	}
	if a, c := get(t, s, "a"), get(t, s, "b/c"); a.Rev != r1 || c.Rev != r1 {
		t.Errorf("revisions %d and %d of records written by %d", a.Rev, c.Rev, r1)
	}

	// A condition that holds, then the same one, which no longer holds.
	r2, err := s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "a", Rev: r1}, {Key: "new", Rev: 0}},
		[]store.Op{put("a", "3")})
	if err != nil || r2 <= r1 {
		t.Fatalf("conditional put: revision %d after %d, error %v", r2, r1, err)
	}
	_, err = s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "a", Rev: r1}},
		[]store.Op{put("a", "4"), put("x", "4"), add("log", "4"), del("b/c")})
	wantErr(t, "stale condition", err, store.ErrConflict)
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || *conflict != (store.ConflictError{Key: "a", Want: r1, Have: r2}) {
		t.Errorf("conflict: %+v", conflict)
	}
	_, err = s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "b/c", Rev: 0}}, []store.Op{put("x", "5")})
	wantErr(t, "condition of absence", err, store.ErrConflict)
	_, err = s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "gone", Rev: 1}}, []store.Op{put("x", "5")})
	wantErr(t, "condition on nothing", err, store.ErrConflict)
	if got := text(all(t, s, "")); got != "a=3 b/c=2" {
		t.Errorf("failed applies left traces: %s", got)
	}

	// Deletes, and deletes of nothing.
	r3 := must(t, s, del("b/c"), del("nothing"))
	if r3 <= r2 {
		t.Errorf("delete has revision %d after %d", r3, r2)
	}
	if r := must(t, s, del("b/c")); r != r3 && !b.Shared || r < r3 {
		t.Errorf("a delete of nothing has revision %d, the store was at %d", r, r3)
	}
	if r := must(t, s); r != r3 && !b.Shared || r < r3 {
		t.Errorf("an empty apply has revision %d, the store was at %d", r, r3)
	}
	_, err = s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "a", Rev: r1}}, nil)
	wantErr(t, "stale condition without ops", err, store.ErrConflict)

	// A record that was deleted and made again is not the old one.
	must(t, s, del("a"))
	r4 := must(t, s, put("a", "again"))
	_, err = s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "a", Rev: r2}}, []store.Op{put("a", "5")})
	wantErr(t, "condition on the record before its deletion", err, store.ErrConflict)

	// Appends.
	must(t, s, add("log", "one"), add("log", "two"), add("other/log", "x"), put("a", "5"))
	must(t, s, add("log", "three"))
	records := all(t, s, "log")
	var last uint64
	for i, want := range []string{"one", "two", "three"} {
		if i >= len(records) {
			t.Fatalf("log has %d records: %s", len(records), text(records))
		}
		seq, ok := store.ParseSequenceKey("log", records[i].Key)
		if !ok || seq <= last || string(records[i].Value) != want {
			t.Errorf("record %d of the log is %s=%s, after number %d", i, records[i].Key, records[i].Value, last)
		}
		last = seq
	}
	// A number is not used again after its record was deleted.
	must(t, s, del(records[2].Key))
	must(t, s, add("log", "four"))
	records = all(t, s, "log")
	if seq, _ := store.ParseSequenceKey("log", records[len(records)-1].Key); seq <= last {
		t.Errorf("number %d after %d, which was deleted", seq, last)
	}

	// What goes in and comes out is not shared with the caller.
	value := []byte("before")
	if _, err := s.Apply(ctx, store.Fence{}, nil,
		[]store.Op{{Kind: store.Put, Key: "own", Value: value}, {Kind: store.Put, Key: "none"}}); err != nil {
		t.Fatal(err)
	}
	copy(value, "AFTER!")
	if got := string(get(t, s, "own").Value); got != "before" {
		t.Errorf("the store kept the caller's slice: %q", got)
	}
	if r := get(t, s, "none"); r.Key == "" || len(r.Value) != 0 {
		t.Errorf("empty value came back as %+v", r)
	}
	odd := string([]byte{0, 255, '\n', '\'', 0})
	must(t, s, put("bytes", odd), put("ключ/é ü", "text"))
	if got := string(get(t, s, "bytes").Value); got != odd {
		t.Errorf("binary value came back as %q", got)
	}
	if got := string(get(t, s, "ключ/é ü").Value); got != "text" {
		t.Errorf("value of a key that is not ASCII: %q", got)
	}

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Apply(canceled, store.Fence{}, nil, []store.Op{put("a", "canceled")})
	wantErr(t, "apply with an ended context", err, context.Canceled)
	_, _, err = s.Snapshot(canceled, "")
	wantErr(t, "snapshot with an ended context", err, context.Canceled)
	if r := get(t, s, "a"); r.Rev <= r4 || string(r.Value) != "5" {
		t.Errorf("a is %s at %d", r.Value, r.Rev)
	}
}

func testBounds(t *testing.T, b Backend) {
	s := b.open(t)
	long := strings.Repeat("k", store.MaxKey)
	big := strings.Repeat("v", store.MaxValue)
	most := store.MaxOpsOf(s)
	many := make([]store.Op, most+1)
	conds := make([]store.Cond, store.MaxOps+1)
	logs := make([]store.Op, store.MaxLogs+1)
	for i := range logs {
		logs[i] = add(fmt.Sprint("logs/", i), "v")
	}
	manyAndLogs := append([]store.Op{}, logs[1:]...)
	for i := range store.MaxOps - store.MaxLogs {
		manyAndLogs = append(manyAndLogs, put(fmt.Sprint("others/", i), "v"))
	}
	for i := range many {
		many[i] = put(fmt.Sprint("many/", i), "v")
	}
	absent := make([]store.Cond, store.MaxOps)
	for i := range absent {
		absent[i] = store.Cond{Key: fmt.Sprint("absent/", i)}
	}
	for i := range conds {
		conds[i] = store.Cond{Key: fmt.Sprint("many/", i)}
	}
	for name, c := range map[string]struct {
		conds []store.Cond
		ops   []store.Op
		ok    bool
	}{
		"longest key":        {ops: []store.Op{put(long, "v")}, ok: true},
		"key too long":       {ops: []store.Op{put(long+"k", "v")}},
		"prefix too long":    {ops: []store.Op{add(long, "v")}},
		"biggest value":      {ops: []store.Op{put("big", big)}, ok: true},
		"value too big":      {ops: []store.Op{put("big", big+"v")}},
		"too much at once":   {ops: []store.Op{put("big1", big), put("big2", big)}},
		"most ops":           {ops: many[:most], conds: conds[:store.MaxOps], ok: true},
		"too many ops":       {ops: many},
		"too many conds":     {conds: conds},
		"most logs":          {ops: manyAndLogs, conds: absent, ok: true},
		"too many logs":      {ops: logs},
		"empty key":          {ops: []store.Op{put("", "v")}},
		"slash first":        {ops: []store.Op{put("/a", "v")}},
		"slash last":         {ops: []store.Op{put("a/", "v")}},
		"two slashes":        {ops: []store.Op{put("a//b", "v")}},
		"not UTF-8":          {ops: []store.Op{put("a\xff", "v")}},
		"control character":  {ops: []store.Op{put("a\x00b", "v")}},
		"bad cond":           {conds: []store.Cond{{Key: "/"}}},
		"bad delete":         {ops: []store.Op{del("a\n")}},
		"delete with value":  {ops: []store.Op{{Kind: store.Delete, Key: "a", Value: []byte("v")}}},
		"changed twice":      {ops: []store.Op{put("a", "1"), del("a")}},
		"no kind":            {ops: []store.Op{{Key: "a"}}},
		"unknown kind":       {ops: []store.Op{{Kind: 9, Key: "a"}}},
		"good one, bad one":  {ops: []store.Op{put("traces", "1"), put("", "2")}},
		"two of one log, ok": {ops: []store.Op{add("log", "1"), add("log", "2")}, ok: true},
	} {
		_, err := s.Apply(context.Background(), store.Fence{}, c.conds, c.ops)
		if c.ok && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !c.ok {
			wantErr(t, name, err, store.ErrInvalid)
		}
	}
	if r := get(t, s, "traces"); r.Key != "" {
		t.Error("an invalid apply left traces")
	}
	if got := get(t, s, "big"); string(got.Value) != big {
		t.Errorf("the biggest value came back with %d bytes", len(got.Value))
	}
	for _, prefix := range []string{"/", "a/", "a//b", "\xff"} {
		_, _, err := s.Snapshot(context.Background(), prefix)
		wantErr(t, "snapshot", err, store.ErrInvalid)
		_, _, err = s.Scan(context.Background(), prefix, "", 1)
		wantErr(t, "scan", err, store.ErrInvalid)
		for _, err = range s.Watch(context.Background(), prefix, 0) {
		}
		wantErr(t, "watch", err, store.ErrInvalid)
	}
	_, err := s.Acquire(context.Background(), "", store.MinTTL)
	wantErr(t, "lease without a name", err, store.ErrInvalid)
	_, err = s.Acquire(context.Background(), "l", 0)
	wantErr(t, "lease without a ttl", err, store.ErrInvalid)
}

func testPrefix(t *testing.T, b Backend) {
	s := b.open(t)
	must(t, s, put("a", "1"), put("a/b", "2"), put("a/b/c", "3"), put("a/b/c/d", "4"),
		put("a/b-x", "5"), put("a/bc", "6"), put("a/b0", "7"), put("A/b", "8"), put("b", "9"), put("a/b%/_", "10"))
	for prefix, want := range map[string]string{
		"":        "A/b=8 a=1 a/b=2 a/b%/_=10 a/b-x=5 a/b/c=3 a/b/c/d=4 a/b0=7 a/bc=6 b=9",
		"a":       "a=1 a/b=2 a/b%/_=10 a/b-x=5 a/b/c=3 a/b/c/d=4 a/b0=7 a/bc=6",
		"a/b":     "a/b=2 a/b/c=3 a/b/c/d=4",
		"a/b/c":   "a/b/c=3 a/b/c/d=4",
		"a/bc":    "a/bc=6",
		"a/b%":    "a/b%/_=10",
		"a/b/c/d": "a/b/c/d=4",
		"c":       "",
	} {
		if got := text(all(t, s, prefix)); got != want {
			t.Errorf("snapshot of %q:\n got %s\nwant %s", prefix, got, want)
		}
	}
}

func testScan(t *testing.T, b Backend) {
	ctx, s := context.Background(), b.open(t)
	var want []store.Record
	must(t, s, put("log", "root"), put("log-x", "no"), put("lof", "no"))
	for i := range 50 {
		must(t, s, add("log", fmt.Sprint(i)))
	}
	want = all(t, s, "log")
	for _, limit := range []int{0, 1, 7, 51, 1000} {
		var got []store.Record
		after := ""
		for {
			page, rev, err := s.Scan(ctx, "log", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if rev < want[len(want)-1].Rev {
				t.Errorf("scan at revision %d", rev)
			}
			if len(page) == 0 {
				break
			}
			if limit > 0 && len(page) > limit {
				t.Fatalf("page of %d with limit %d", len(page), limit)
			}
			got = append(got, page...)
			after = page[len(page)-1].Key
		}
		if text(got) != text(want) {
			t.Errorf("limit %d:\n got %s\nwant %s", limit, text(got), text(want))
		}
	}
	// after need not exist, nor be below the prefix
	for after, n := range map[string]int{"a": 51, "log": 50, "log/": 50, "log/00000000000000000009x": 41, "loh": 0} {
		if page, _, err := s.Scan(ctx, "log", after, 0); err != nil || len(page) != n {
			t.Errorf("after %q: %d records, %v; want %d", after, len(page), err, n)
		}
	}
	// a page is bounded in bytes, yet never empty before the end
	big := strings.Repeat("v", store.MaxValue)
	for i := range 6 {
		must(t, s, put(fmt.Sprint("big/", i), big))
	}
	after, n := "", 0
	for range 7 {
		page, _, err := s.Scan(ctx, "big", after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > store.MaxPage/store.MaxValue {
			t.Fatalf("page of %d MiB", len(page))
		}
		if len(page) == 0 {
			break
		}
		n += len(page)
		after = page[len(page)-1].Key
	}
	if n != 6 {
		t.Errorf("%d of 6 big records", n)
	}
	if got := all(t, s, "big"); len(got) != 6 {
		t.Errorf("snapshot has %d of 6 big records", len(got))
	}
}
