package jointoken

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

var addresses = []string{"10.0.0.1:7946"}

func create(t *testing.T, s *Store, life time.Duration) Token {
	t.Helper()
	token, err := s.Create(t.Context(), [32]byte{1}, addresses, life)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func discard(s store.Store) *Store { return NewStore(s, slog.New(slog.DiscardHandler)) }

func TestStore(t *testing.T) {
	database, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]store.Store{"memory": memory.New(), "sqlite": database} {
		t.Run(name, func(t *testing.T) {
			defer db.Close()
			s := discard(db)
			if all, err := s.List(t.Context()); len(all) > 0 || err != nil {
				t.Errorf("%v, %v", all, err)
			}
			a, b := create(t, s, DefaultLife), create(t, s, time.Hour)
			all, err := s.List(t.Context())
			if err != nil || len(all) != 2 || all[0].ID >= all[1].ID {
				t.Errorf("%v, %v", all, err)
			}
			for _, info := range all {
				want := map[string]time.Duration{a.ID: DefaultLife, b.ID: time.Hour}[info.ID]
				if info.Expires.Sub(info.Created) != want || time.Since(info.Created).Abs() > time.Minute {
					t.Errorf("%+v, want a life of %v", info, want)
				}
			}
			records, _, err := db.Snapshot(t.Context(), "")
			if err != nil || len(records) != 2 {
				t.Errorf("%v, %v", records, err)
			}
			for _, r := range records {
				for _, token := range []Token{a, b} {
					if bytes.Contains(r.Value, token.secret[:]) ||
						strings.Contains(string(r.Value), token.Text()[60:90]) {
						t.Errorf("%s has the secret: %s", r.Key, r.Value)
					}
				}
			}
			wrong := a.Secret()
			wrong[0] ^= 1
			for name, c := range map[string]struct {
				id     string
				secret []byte
				want   error
			}{
				"a": {a.ID, a.Secret(), nil}, "a again": {a.ID, a.Secret(), nil}, "b": {b.ID, b.Secret(), nil},
				"of another": {a.ID, b.Secret(), ErrRefused}, "one bit": {a.ID, wrong, ErrRefused},
				"empty": {a.ID, nil, ErrRefused}, "cut": {a.ID, a.Secret()[:19], ErrRefused},
				"longer": {a.ID, append(a.Secret(), 0), ErrRefused}, "unknown": {"aaaaaaaa", a.Secret(), ErrRefused},
				"no ID": {"", a.Secret(), ErrRefused}, "path": {"../../x", a.Secret(), ErrRefused},
				"huge": {strings.Repeat("a", 1<<20), bytes.Repeat([]byte("a"), 1<<20), ErrRefused},
			} {
				err := s.Check(t.Context(), c.id, c.secret)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%s: %v, want %v", name, err, c.want)
				}
			}
			if err := s.Revoke(t.Context(), a.ID); err != nil {
				t.Error(err)
			}
			if err := s.Check(t.Context(), a.ID, a.Secret()); !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
			if err := s.Revoke(t.Context(), a.ID); !errors.Is(err, ErrNone) {
				t.Error(err)
			}
			if err := s.Revoke(t.Context(), a.Text()); err == nil || errors.Is(err, ErrNone) ||
				strings.Contains(err.Error(), a.Text()[60:90]) {
				t.Error(err)
			}
		})
	}
}

func TestCreateBounds(t *testing.T) {
	db := memory.New()
	defer db.Close()
	s := discard(db)
	for _, life := range []time.Duration{0, -1, MaxLife + 1} {
		if _, err := s.Create(t.Context(), [32]byte{}, addresses, life); err == nil {
			t.Errorf("%v: no error", life)
		}
	}
	for _, bad := range [][]string{nil, {"a:1", "a:1", "a:1", "a:1"}, {"0.0.0.0:1"}} {
		if _, err := s.Create(t.Context(), [32]byte{}, bad, time.Hour); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if all, err := s.List(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	for range MaxTokens {
		create(t, s, MaxLife)
	}
	if _, err := s.Create(t.Context(), [32]byte{}, addresses, time.Hour); err == nil ||
		!strings.Contains(err.Error(), "revoke one") {
		t.Error(err)
	}
}

// Damaged records are left alone, and do not affect other tokens. They can be revoked.
func TestDamagedRecords(t *testing.T) {
	db := memory.New()
	defer db.Close()
	var log bytes.Buffer
	s := NewStore(db, slog.New(slog.NewTextHandler(&log, nil)))
	good := create(t, s, time.Hour)
	var ops []store.Op
	for id, value := range map[string]string{
		"aaaaaaaa": "", "bbbbbbbb": "{}", "cccccccc": `{"hash":"AAAA","expires":"2999-01-01T00:00:00Z"}`,
		"dddddddd": `{"expires":"2999-01-01T00:00:00Z"}`, "eeeeeeee/x": `{}`, "short": `{}`, "ffffffff": `{"hash":7}`,
	} {
		ops = append(ops, store.Op{Kind: store.Put, Key: Prefix + "/" + id, Value: []byte(value)})
	}
	if _, err := db.Apply(t.Context(), store.Fence{}, nil, ops); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != good.ID {
		t.Errorf("%v, %v", all, err)
	}
	if n := strings.Count(log.String(), "cannot be read and is left alone"); n != len(ops) {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
	for _, id := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"} {
		if err := s.Check(t.Context(), id, make([]byte, SecretSize)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := s.Check(t.Context(), good.ID, good.Secret()); err != nil {
		t.Error(err)
	}
	if err := s.Revoke(t.Context(), "aaaaaaaa"); err != nil {
		t.Error(err)
	}
}

func TestStoreFails(t *testing.T) {
	db := memory.New()
	faults := storetest.NewFaults(db, 1, storetest.Rates{})
	s := discard(faults)
	token := create(t, s, time.Hour)
	faults.Fail(store.ErrFull)
	if _, err := s.Create(t.Context(), [32]byte{}, addresses, time.Hour); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	if err := s.Revoke(t.Context(), token.ID); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	if err := s.Check(t.Context(), token.ID, token.Secret()); err != nil {
		t.Error(err)
	}
	db.Close()
	if err := s.Check(context.Background(), token.ID, token.Secret()); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// A token is valid from when it is made until it expires or is revoked, whatever the store does, and those that have
// expired are removed when others are made or used.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any // the panic of rapid, which has to leave the bubble
		synctest.Test(t, func(t *testing.T) {
			defer func() { stopped = recover() }()
			model(t.Context(), rt)
		})
		if stopped != nil {
			panic(stopped)
		}
	})
}

func model(ctx context.Context, rt *rapid.T) {
	faults := storetest.NewFaults(memory.New(), rapid.Uint64().Draw(rt, "seed"),
		storetest.Rates{Unknown: 0.3, Conflict: 0.3})
	defer faults.Close()
	nodes := []*Store{discard(faults), discard(faults)}
	type made struct {
		Token
		expires time.Time
		revoked bool
	}
	var all []*made
	valid := func(m *made) bool { return !m.revoked && time.Now().Before(m.expires) }
	some := func(rt *rapid.T) *made {
		if len(all) == 0 {
			rt.Skip("no token")
		}
		return rapid.SampledFrom(all).Draw(rt, "token")
	}
	node := func(rt *rapid.T) *Store { return rapid.SampledFrom(nodes).Draw(rt, "node") }
	rt.Repeat(map[string]func(*rapid.T){
		"create": func(rt *rapid.T) {
			life := time.Duration(rapid.IntRange(1, 100).Draw(rt, "life")) * time.Minute
			token, err := node(rt).Create(ctx, [32]byte{}, addresses, life)
			if err != nil {
				rt.Fatal(err)
			}
			all = append(all, &made{token, time.Now().Add(life), false})
		},
		"check": func(rt *rapid.T) {
			m := some(rt)
			err := node(rt).Check(ctx, m.ID, m.Secret())
			if want := valid(m); want != (err == nil) || !want && !errors.Is(err, ErrRefused) {
				rt.Fatalf("%v: %v, want %v", m.Token, err, want)
			}
		},
		"revoke": func(rt *rapid.T) {
			m := some(rt)
			err := node(rt).Revoke(ctx, m.ID)
			if err != nil && (valid(m) || !errors.Is(err, ErrNone)) {
				rt.Fatal(err)
			}
			m.revoked = true
		},
		"wait": func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 60).Draw(rt, "wait")) * time.Minute) },
		"": func(rt *rapid.T) {
			infos, err := nodes[0].List(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			var want, got []string
			for _, m := range all {
				if valid(m) {
					want = append(want, m.ID)
				}
			}
			for _, info := range infos {
				got = append(got, info.ID)
			}
			slices.Sort(want)
			records, _, err := faults.Snapshot(ctx, "")
			if !slices.Equal(got, want) || len(records) != len(want) || err != nil {
				rt.Fatalf("%v are listed and %d records are left, want %v, %v", got, len(records), want, err)
			}
		},
	})
}
