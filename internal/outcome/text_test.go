package outcome

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// decode reads a stored outcome, as its readers do.
func decode(data []byte) (Outcome, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Outcome{}, err
	}
	return New(r)
}

// A report that a later version has stored is read, or is an error.
func TestDecodeStored(t *testing.T) {
	tests := []struct {
		name, in, want string // want of the error, empty: it is read
	}{
		{"the least", `{"kind":"retryable","context":{"approach":"a","obstacle":{"kind":"external_dependency","service":"s"}}}`, ""},
		{"unknown names", `{"kind":"completed","tokens":12,"context":null}`, ""},
		{"a time with an offset", `{"kind":"deferred","not_before":"2030-01-02T03:04:05+05:30","context":{"approach":"a","obstacle":{"kind":"other","description":"d"}}}`, ""},
		{"unknown kind", `{"kind":"exploded"}`, `unknown kind "exploded"`},
		{"a context that lacks", `{"kind":"blocked","context":{"discoveries":["x"]}}`, "missing context.approach, context.obstacle, condition"},
		{"null", `null`, "missing kind"},
		{"a list", `[]`, "cannot unmarshal array"},
		{"kind is a number", `{"kind":7}`, "cannot unmarshal number"},
		{"a time that is none", `{"kind":"deferred","not_before":"soon"}`, "soon"},
		{"too long", `{"kind":"completed","summary":"` + strings.Repeat("x", MaxBytes) + `"}`, "expected at most 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := decode([]byte(tt.in))
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n got %v\nwant %s", err, tt.want)
			}
			if (o.Kind() == "") != (err != nil) {
				t.Errorf("kind %q with error %v", o.Kind(), err)
			}
		})
	}
}

// Parse is strict.
func TestParse(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", "expected a JSON object, found nothing"},
		{"null", "null", "expected an object, not null"},
		{"a misspelt name", `{"kind":"completed","sumary":"x"}`, `unknown field "sumary"; did you mean "summary"?`},
		{"a misspelt name further in", `{"kind":"retryable","context":{"recomendation":"x"}}`, `unknown field "recomendation"; did you mean "recommendation"?`},
		{"cut off", "{\n  \"kind\": \"comp", "2:16: unexpected EOF"},
		{"no JSON", "{\n  kind: completed }", "2:3: invalid character 'k'"},
		{"another type", "{\"kind\":\n \"completed\", \"summary\": 7}", "2:26: cannot unmarshal number"},
		{"two", `{"kind":"completed"} {"kind":"completed"}`, "1:22: something follows the object"},
		{"too long", strings.Repeat(" ", MaxBytes+1), "has 65537 bytes as JSON, expected at most 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestParseObstacle(t *testing.T) {
	tests := []struct {
		in, err string
		want    Obstacle
	}{
		{"it rained", "", Obstacle{Kind: OtherObstacle, Description: "it rained"}},
		{` {"kind":"scope_too_large","estimated_files":9,"max_files":2}`, "", Obstacle{Kind: ScopeTooLarge, EstimatedFiles: 9, MaxFiles: 2}},
		{`{"kind":"other","descripton":"x"}`, `unknown field "descripton"; did you mean "description"?`, Obstacle{}},
		{`{rain}`, "obstacle: 1:2: invalid character 'r'", Obstacle{}},
	}
	for _, tt := range tests {
		o, err := ParseObstacle(tt.in)
		if o != tt.want || (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", tt.in, o, err, tt.want, tt.err)
		}
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{"30m": now.Add(30 * time.Minute), "2031-01-02T03:04:05+01:00": time.Date(2031, 1, 2, 2, 4, 5, 0, time.UTC)} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := ParseTime("soon", now); err == nil || !strings.Contains(err.Error(), `"soon", expected a duration`) {
		t.Errorf("error %v", err)
	}
}

// Anything that can be read is complete, bounded, and unchanged by a round trip.
func FuzzOutcome(f *testing.F) {
	for _, fields := range fullReports() {
		data, err := json.Marshal(fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"completed","summary":"<\u2028\ud800>","context":null,"subtasks":[]}`))
	f.Add([]byte(`{"kind":"retryable","context":{"approach":"a","obstacle":{"kind":"other","description":"d"},"discoveries":[],"explored_state":{"files":[]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictly, err := Parse(data); err == nil {
			if stored, err := decode(data); err != nil || !same(t, strictly, stored) {
				t.Errorf("Parse reads %v, decode %v, %v", strictly, stored, err)
			}
		}
		o, err := decode(data)
		if err != nil {
			if o.Kind() != "" {
				t.Error("an error and an outcome")
			}
			return
		}
		if err := check(o.Report()); err != nil {
			t.Error(err)
		}
		out, err := json.Marshal(o.Report())
		if err != nil || len(out) > MaxBytes {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		if again, err := decode(out); err != nil || !same(t, o, again) {
			t.Errorf("%s\n%v", out, err)
		}
	})
}

func same(t *testing.T, a, b Outcome) bool {
	x, err := json.Marshal(a.Report())
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b.Report())
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}
