package transfer

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"unicode/utf8"
)

// Objects are parsed as by encoding/json, and written as they were.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":{"b":[1,2,{"c":"}"}]},"\u0061b":"x\\\"y"}`, "{ \"a\" :\t[ 1 , true ] ,\n\"b\": -1.5e+3 , \"c\":null}", `{"a":1,"a":2}`,
		`{"a":1,"\u0061":2}`, `{"a"}`, `[1]`, `{"a":1} {}`, `{"a":"`, `null`, ``, `{"":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":[[[]]],"b":{"c":{}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		o, err := parseObject(data)
		var want map[string]json.RawMessage
		right := utf8.Valid(data) && json.Unmarshal(data, &want) == nil && want != nil
		if !bytes.Equal(data, before) {
			t.Error("the text was changed")
		}
		got := map[string]json.RawMessage{}
		for _, m := range o {
			got[m.name] = m.value
		}
		switch {
		case err != nil && right && !bytes.Contains([]byte(err.Error()), []byte("appears twice")), err == nil && !right:
			t.Fatalf("%q: %v", data, err)
		case err != nil:
			return
		case len(got) != len(o) || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))):
			t.Fatalf("%q: members %q, want %q", data, got, want)
		}
		for name, value := range want {
			var small bytes.Buffer
			if err := json.Compact(&small, value); err != nil || small.String() != string(got[name]) {
				t.Errorf("%q: %q is %q, want %q; %v", data, name, got[name], small.String(), err)
			}
		}
		all := o.json()
		var small bytes.Buffer
		if err := json.Compact(&small, data); err != nil || small.String() != string(all) || o.size() != len(all) {
			t.Errorf("%q became %q of %d bytes; %v", data, all, o.size(), err)
		}
	})
}
