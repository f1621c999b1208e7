package value

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Value{
		"1":                               "1",
		" [ 1 , 2 ]\n":                    "[1,2]",
		`{"a": {"b": "x y"}}`:             `{"a":{"b":"x y"}}`,
		"9007199254740993":                "9007199254740993", // 2^53 + 1, which no float has
		"-170141183460469231731687303715": "-170141183460469231731687303715",
		"0.1000000000000000055511151231":  "0.1000000000000000055511151231",
		"1E5":                             "1E5",
		`"<a href=\"&\">"`:                `"<a href=\"&\">"`,
		`"\u00e9\ud83d\ude00"`:            `"\u00e9\ud83d\ude00"`,
		`{"a":1,"b":{"a":1},"c":["a"]}`:   `{"a":1,"b":{"a":1},"c":["a"]}`,
		`[{"a":1},{"a":1}]`:               `[{"a":1},{"a":1}]`,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth): Value(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)),
		"null": Null,
	} {
		got, err := Parse([]byte(text))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
		var again Value
		if data, err := json.Marshal(got); err != nil {
			t.Error(err)
		} else if err := json.Unmarshal(data, &again); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "1:1: not JSON: unexpected end of JSON input",
		"  ":                             "1:3: not JSON: unexpected end of JSON input",
		"hello":                          "1:1: not JSON: invalid character 'h' looking for beginning of value",
		"1 2":                            "1:3: not JSON: invalid character '2' after top-level value",
		"[1,\n 2,]":                      "2:4: not JSON: invalid character ']' looking for beginning of value",
		"01":                             "1:2: not JSON: invalid character '1' after top-level value",
		"NaN":                            "1:1: not JSON: invalid character 'N' looking for beginning of value",
		"\"a\xffb\"":                     "1:3: the byte 0xff is not UTF-8",
		"\"a\x00b\"":                     "1:3: not JSON: invalid character '\\x00' in string literal",
		`{"a":1, "b":{},` + "\n\"a\":2}": `2:1: the key "a" is there twice, expected once`,
		`{"a":1,"\u0061":2}`:             `1:8: the key "a" is there twice, expected once`,
		"[1e10000]":                      "1:2: the exponent of 1e10000 is out of range, expected at most 9999; write it as a string",
		"1e99999999999999999999":         "1:1: the exponent of 1e99999999999999999999 is out of range, expected at most 9999; write it as a string",
		strings.Repeat("9", 1001):        "1:1: a number of 1001 characters, at most 1000 are allowed; write it as a string",
		strings.Repeat("[", 101) + strings.Repeat("]", 101): "1:101: lists and maps are nested more than 100 levels deep",
	} {
		v, err := Parse([]byte(text))
		var at *Error
		if !errors.As(err, &at) || err.Error() != want || v != "" {
			t.Errorf("%.40q:\n got %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{`"` + strings.Repeat("x", MaxBytes-1) + `"`, strings.Repeat(" ", 3*MaxBytes) + "1", strings.Repeat("[", 1<<21)} {
		_, err := Parse([]byte(text))
		var large *LimitError
		if !errors.As(err, &large) || large.Max != MaxBytes || !strings.Contains(err.Error(), "at most 524288 are allowed") {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	if _, err := Parse([]byte(`"` + strings.Repeat("x", MaxBytes-2) + `"`)); err != nil {
		t.Errorf("the largest value: %v", err)
	}
	if _, err := Parse([]byte(strings.Repeat("[", 1<<19))); err == nil || !strings.Contains(err.Error(), "depth") {
		t.Errorf("a flood of brackets: %v", err)
	}
}

func TestType(t *testing.T) {
	samples := []Value{Null, "true", "1", "-0", "1.5", "1e3", `""`, `"1"`, "[]", "{}", "123456789012345678901234567890", "1e400"}
	fits := map[Type][]Value{
		Any:    samples,
		Bool:   {"true"},
		Int:    {"1", "-0", "123456789012345678901234567890"},
		Float:  {"1", "-0", "1.5", "1e3", "123456789012345678901234567890"},
		String: {`""`, `"1"`},
		List:   {"[]"},
		Map:    {"{}"},
	}
	for typ, want := range fits {
		var got []Value
		for _, v := range samples {
			if typ.Fits(v) {
				got = append(got, v)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v takes %v, want %v", typ, got, want)
		}
		if !typ.Fits(typ.Zero()) {
			t.Errorf("%v does not take its zero %s", typ, typ.Zero())
		}
		if again, err := ParseType(typ.String()); err != nil || again != typ {
			t.Errorf("%v is read as %v, %v", typ, again, err)
		}
		if typ.Fits("") {
			t.Errorf("%v takes no value for one", typ)
		}
	}
	if _, err := ParseType("text"); err == nil || !strings.Contains(err.Error(), "any, bool, int, float, string, list, map") {
		t.Errorf("unknown type: %v", err)
	}
}

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		v, err := Text(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse([]byte(v))
		var back string
		if err != nil || again != v || json.Unmarshal([]byte(v), &back) != nil || back != s {
			t.Fatalf("%q is %s, read as %s %q, %v", s, v, again, back, err)
		}
	})
	if _, err := Text("a\xff"); err == nil {
		t.Error("bytes that are no text were taken")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1", `{"a":[1,2.5e3,"x"],"b":null}`, `"\ud800"`, "[[[", "{\"a\":1,\"a\":2}", "1e9999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		again, err := Parse([]byte(v))
		if err != nil || again != v || len(v) > MaxBytes || !json.Valid([]byte(v)) {
			t.Errorf("%q is %q, and that is %q, %v", text, v, again, err)
		}
		if of := Of(v); !of.Fits(v) && of != Float {
			t.Errorf("%q is %v, which it does not fit", v, of)
		}
	})
}
