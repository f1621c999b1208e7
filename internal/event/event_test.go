package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/store"
)

func TestJSON(t *testing.T) {
	e := Event{
		Seq: 7, Time: time.Date(2024, 1, 2, 3, 4, 5, 600, time.UTC), Type: AgentCrashed, Path: "app/db", Incarnation: 3,
		Actor: "patrol", Message: `exit 1 <&> "x"`, Data: json.RawMessage(`{"code":1}`), Truncated: 9,
	}
	const want = `{"seq":7,"time":"2024-01-02T03:04:05.0000006Z","type":"agent.crashed","path":"app/db","incarnation":3,` +
		`"actor":"patrol","message":"exit 1 <&> \"x\"","data":{"code":1},"truncated":9}` + "\n"
	var b bytes.Buffer
	if err := WriteNDJSON(&b, e); err != nil || b.String() != want {
		t.Errorf("got  %swant %s(%v)", b.String(), want, err)
	}
	var back Event
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !reflect.DeepEqual(e, back) {
		t.Errorf("back: %+v, %v", back, err)
	}
}

// What a later version writes survives this one.
func TestUnknown(t *testing.T) {
	const later = `{"seq":"x9","time":"2024-01-02T03:04:05Z","type":"agent.teleported","incarnation":-1,"data":[1,{"a":null}],"node":"n1","zone":{"a":[2]}}`
	var e Event
	if err := json.Unmarshal([]byte(later), &e); err != nil {
		t.Fatal(err)
	}
	if e.Type != "agent.teleported" || e.Seq != 0 || string(e.Extra["node"]) != `"n1"` || string(e.Extra["seq?"]) != `"x9"` || string(e.Extra["incarnation?"]) != "-1" {
		t.Errorf("%+v", e)
	}
	out, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"zone":{"a":[2]}`, `"node":"n1"`, `"data":[1,{"a":null}]`, `"type":"agent.teleported"`} {
		if !strings.Contains(string(out), part) {
			t.Errorf("%s lost: %s", part, out)
		}
	}
}

func TestHostileData(t *testing.T) {
	for name, e := range map[string]Event{
		"not JSON":     {Data: json.RawMessage("{oops")},
		"two lines":    {Data: json.RawMessage("{\n\"a\":\n1}"), Message: "a\nb"},
		"not UTF-8":    {Message: "\xff\xfe", Path: "\xff", Data: json.RawMessage("\"\xff\"")},
		"unencodable":  Event{}.With(func() {}),
		"far future":   {Time: time.Date(123456, 1, 1, 0, 0, 0, 0, time.UTC)},
		"bad extra":    {Extra: map[string]json.RawMessage{"x": json.RawMessage("}"), "seq": json.RawMessage("1"), "nil": nil}},
		"escape codes": {Message: "\x1b[2J\x00"},
	} {
		line, err := e.normalise(time.Now()).MarshalJSON()
		if err != nil || !json.Valid(line) || bytes.ContainsRune(line, '\n') || !utf8.Valid(line) || bytes.ContainsRune(line, 0x1b) {
			t.Errorf("%s: %s, %v", name, line, err)
		}
	}
}

func TestLong(t *testing.T) {
	const mb = 1 << 20
	for name, e := range map[string]Event{
		"message":     {Message: strings.Repeat("ü", mb)},
		"data":        Event{}.With(strings.Repeat("x", 3*mb)),
		"escapes":     Event{Message: strings.Repeat("\x00", mb), Type: Type(strings.Repeat("\x01", mb))}.With(strings.Repeat("\x00", mb)),
		"not JSON":    {Data: bytes.Repeat([]byte("\x02"), 2*mb)},
		"HTML":        {Data: json.RawMessage(`"` + strings.Repeat("<", MaxData-2) + `"`)},
		"all at once": Event{Message: strings.Repeat("\x00", mb), Actor: strings.Repeat("\x01", mb), Path: strings.Repeat("\x01", mb)}.With(strings.Repeat("<\xff", mb)),
	} {
		n := e.normalise(time.Now())
		line, err := n.MarshalJSON()
		if err != nil || len(line) > store.MaxValue {
			t.Errorf("%s: %d bytes, %v", name, len(line), err)
		}
		if cutAny := len(e.Message) > MaxMessage || len(e.Data) > MaxData; cutAny != (n.Truncated > 0) {
			t.Errorf("%s: %d truncated", name, n.Truncated)
		}
		var back Event
		if err := json.Unmarshal(line, &back); err != nil || back.Truncated != n.Truncated {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Through the log, with an unknown field that is too long as well.
	l := openLog(t, Config{})
	l.Append(Event{Type: "task.created", Extra: map[string]json.RawMessage{"x": json.RawMessage(`"` + strings.Repeat("y", 2*mb) + `"`)}}.With(strings.Repeat("x", 3*mb)))
	l.Append(Event{Type: "task.closed"})
	flush(t, l)
	if got := read(t, l, 0, Filter{}); len(got) != 2 || got[0].Truncated < 2*mb || got[0].Extra != nil || got[1].Seq != 2 {
		t.Errorf("%d events", len(got))
	}
}

// A record that is no event costs itself only.
func TestUnreadable(t *testing.T) {
	l := openLog(t, Config{})
	for _, v := range []string{"", "{", "null", "[1]", "\xff", `{"type":"good"}`} {
		if _, err := l.store.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Append, Key: "events", Value: []byte(v)}}); err != nil {
			t.Fatal(err)
		}
	}
	l.store.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: "events/strange", Value: []byte("x")}})
	got := read(t, l, 0, Filter{})
	if len(got) != 6 || got[5].Type != "good" || got[5].Seq != 6 {
		t.Fatalf("%s", lines(got))
	}
	for _, e := range got[:5] {
		if e.Type != Unreadable {
			t.Errorf("%d is %s", e.Seq, e.Type)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2024-01-02T03:04:05Z","type":"a.b","data":{"x":1},"more":[]}`))
	f.Add([]byte(`{"time":"123456-01-01T00:00:00Z","message":"\u0000"}`))
	f.Add([]byte("{\"data\":\"\xff\",\"\":1}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		e := decode(5, in)
		if e.Seq != 5 {
			t.Fatal("number lost")
		}
		out, err := e.MarshalJSON()
		if err != nil || !json.Valid(out) || bytes.ContainsRune(out, '\n') {
			t.Fatalf("%q -> %q, %v", in, out, err)
		}
		var back Event
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		again, err := back.MarshalJSON()
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("not stable:\n%s\n%s", out, again)
		}
		n := e.normalise(time.Unix(1, 0))
		stored, err := n.MarshalJSON()
		if err != nil || !utf8.ValidString(n.Message+n.Path+n.Actor+string(n.Type)) || n.Type == "" || !json.Valid(stored) {
			t.Fatalf("normalised: %+v, %v", n, err)
		}
	})
}

// TestText checks that the message of an event can be shown next to what it is about.
func TestText(t *testing.T) {
	for _, test := range []struct {
		e        Event
		expected string
	}{
		{Event{Path: "t/a", Message: "t/a restarted, incarnation 2"}, "restarted, incarnation 2"},
		{Event{Path: "t/a", Message: "t/ab is another"}, "t/ab is another"},
		{Event{Path: "orders/nightly", Message: "order nightly completed"}, "completed"},
		{Event{Message: "controller stopped"}, "controller stopped"},
	} {
		if got := test.e.Text(); got != test.expected {
			t.Errorf("%s: got %q, want %q", test.e.Message, got, test.expected)
		}
	}
}
