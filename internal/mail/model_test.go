package mail

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

// letterModel is the model of a message.
type letterModel struct {
	from, to, body string
	read, archived bool
	told           uint64
}

// With store faults, and after the mailboxes are opened again at any time, no message is lost or
// duplicated, and each is delivered once to each incarnation.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inner := memory.New()
		defer inner.Close()
		s := storetest.NewFaults(inner, rapid.Uint64().Draw(t, "seed"), storetest.Rates{Unknown: 0.2, Conflict: 0.2})
		b := open(t, s)
		ctx := t.Context()
		model := map[string]*letterModel{}
		keys := map[string]string{} // from/key: id
		incarnation := map[string]uint64{"t/a": 1, "t/b": 1}
		addresses := []string{"t/a", "t/b", People}
		address := rapid.SampledFrom(addresses)
		agent := rapid.SampledFrom(addresses[:2])
		of := func(to string, like func(*letterModel) bool) (found []string) {
			for id, l := range model {
				if l.to == to && like(l) {
					found = append(found, id)
				}
			}
			slices.SortFunc(found, func(x, y string) int {
				a, _ := parseID(x)
				b, _ := parseID(y)
				return int(a) - int(b)
			})
			return found
		}
		unread := func(l *letterModel) bool { return !l.read && !l.archived }
		pick := func(t *rapid.T, to string) string {
			all := of(to, func(*letterModel) bool { return true })
			if len(all) == 0 {
				t.Skip("empty")
			}
			return rapid.SampledFrom(all).Draw(t, "id")
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				p := Post{From: address.Draw(t, "from"), To: address.Draw(t, "to"), Subject: "s", Body: rapid.StringMatching("[a-z]{0,3}").Draw(t, "body")}
				p.Incarnation = incarnation[p.From]
				p.Key = rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key")
				m, fresh, err := b.Send(ctx, p)
				before := keys[p.From+"/"+p.Key]
				switch old := model[before]; {
				case p.Key != "" && before != "" && (old.to != p.To || len(old.body) != len(p.Body)):
					if !errors.Is(err, ErrInvalid) {
						t.Fatalf("another message under a key: %v", err)
					}
				case p.Key != "" && before != "":
					if err != nil || fresh || m.ID != before {
						t.Fatalf("the same under a key: %+v, %v", m, err)
					}
				default:
					if err != nil || !fresh || model[m.ID] != nil {
						t.Fatalf("%+v, %v", m, err)
					}
					model[m.ID] = &letterModel{from: p.From, to: p.To, body: p.Body}
					if p.Key != "" {
						keys[p.From+"/"+p.Key] = m.ID
					}
				}
			},
			"read": func(t *rapid.T) {
				to := address.Draw(t, "to")
				id := pick(t, to)
				got, err := b.Read(ctx, to, incarnation[to], []string{id})
				if err != nil || len(got) != 1 || got[0].Body != model[id].body || got[0].From != model[id].from {
					t.Fatalf("%+v, %v", got, err)
				}
				model[id].read = true
			},
			"archive": func(t *rapid.T) {
				to := address.Draw(t, "to")
				id := pick(t, to)
				if _, err := b.Archive(ctx, to, []string{id}); err != nil {
					t.Fatal(err)
				}
				model[id].archived = true
			},
			"deliver": func(t *rapid.T) {
				to := agent.Draw(t, "to")
				want := of(to, func(l *letterModel) bool { return unread(l) && l.told < incarnation[to] })
				want = want[:min(len(want), maxBatch)]
				key := rapid.SampledFrom([]string{"", "once"}).Draw(t, "key")
				if key != "" {
					key = fmt.Sprint(key, len(model), len(want), incarnation[to], rapid.Uint32().Draw(t, "more"))
				}
				got, err := b.Deliver(ctx, to, incarnation[to], key)
				if err != nil || ids(got) != strings.Join(want, " ") {
					t.Fatalf("told %s, want %v, %v", ids(got), want, err)
				}
				for _, id := range want {
					model[id].told = incarnation[to]
				}
			},
			"restart": func(t *rapid.T) {
				to := agent.Draw(t, "to")
				incarnation[to]++
				if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
					incarnation[to] = 1
				}
				if err := b.Begin(ctx, to, incarnation[to]); err != nil {
					t.Fatal(err)
				}
				for _, l := range model {
					if l.to == to && unread(l) && l.told >= incarnation[to] {
						l.told = 0
					}
				}
			},
			"full": func(t *rapid.T) {
				s.Fail(store.ErrFull)
				defer s.Fail(nil)
				if _, _, err := b.Send(ctx, Post{From: "t/a", To: "t/b", Subject: "lost"}); !errors.Is(err, store.ErrFull) {
					t.Fatal(err)
				}
			},
			"reopen": func(t *rapid.T) { b = open(t, s) },
			"": func(t *rapid.T) {
				var all []string
				for _, to := range addresses {
					want := of(to, unread)
					if got := ids(b.List(to, false)); got != strings.Join(want, " ") || b.Unread(to) != len(want) {
						t.Fatalf("inbox of %s: %s (%d), want %v", to, got, b.Unread(to), want)
					}
					all = append(all, strings.Fields(ids(b.List(to, true)))...)
				}
				slices.Sort(all)
				if want := slices.Sorted(maps.Keys(model)); !slices.Equal(all, want) {
					t.Fatalf("there is %v, want %v", all, want)
				}
			},
		})
	})
}
