package event

import (
	"reflect"
	"testing"
	"time"
)

// exampleRecord returns a record as most are.
func exampleRecord() []byte {
	return Event{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Type: AgentStarted, Path: "app/ä1", Incarnation: 3,
		Actor: "supervisor", Message: "app/ä1 started",
	}.With(map[string]any{"pid": 1234, "reason": "}\"]", "list": []any{1, nil}}).record()
}

func TestParse(t *testing.T) {
	for _, in := range []string{
		string(exampleRecord()),
		`{"seq":0}`, `{"seq":12,"epoch":"x","type":"a.b"}`, `{"data":[1,{"a":"\\"}]}`, `{"data":"x,}"}`, `{"data":1}`,
	} {
		checkParse(t, []byte(in), true)
	}
	for _, in := range []string{
		``, `{`, `{}`, `null`, `[]`, `{"seq"}`, `{"seq":}`, `{"seq":01}`, `{"seq":-1}`, `{"seq":1.0}`, `{"seq":"1"}`,
		`{"seq":99999999999999999999}`, `{"seq":1,}`, `{"seq":1}}`, `{"seq":1} `, ` {"seq":1}`, `{"seq": 1}`,
		`{"seq":1,"seq":2}`, `{"Seq":1}`, `{"path":null}`, `{"path":"\n"}`, "{\"path\":\"\xff\"}", "{\"path\":\"\n\"}",
		`{"path":"x"y}`, `{"path":"x`, `{"time":"yesterday"}`, `{"time":1}`, `{"truncated":1}`, `{"more":1}`,
		`{"data":null}`, `{"data": 1}`, `{"data":1 }`, `{"data":[}]}`, `{"data":{]}}`, `{"data":"\`, `{"data":"x}`,
	} {
		checkParse(t, []byte(in), false)
	}
}

// checkParse checks that parse reads an event as encoding/json does, and whether it reads it.
func checkParse(t *testing.T, in []byte, want bool) {
	t.Helper()
	var fast, slow Event
	if got := fast.parse(in); got != want {
		t.Errorf("%q: got %v", in, got)
	} else if !got {
		return
	}
	if err := slow.unmarshal(in); err != nil || !reflect.DeepEqual(fast, slow) {
		t.Errorf("%q: got %+v, want %+v, %v", in, fast, slow, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(exampleRecord())
	f.Add([]byte(`{"seq":1,"epoch":"x","data":{"x":[" ",",}"]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var e Event
		checkParse(t, in, e.parse(in))
	})
}

// A daemon reads each event several times.
func TestDecodeAllocatesLittle(t *testing.T) {
	record := exampleRecord()
	if n := testing.AllocsPerRun(100, func() { decode(7, record) }); n > 8 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	record := exampleRecord()
	b.ReportAllocs()
	for b.Loop() {
		decode(7, record)
	}
}
