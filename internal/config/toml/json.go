package toml

import (
	"encoding/json"
	"strconv"
	"strings"

	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

// JSON converts a value to JSON.
func (r *Reader) JSON(v *Value) (jsonvalue.Value, bool) {
	var b strings.Builder
	if !r.appendJSON(&b, v) {
		return "", false
	}
	got, err := jsonvalue.Parse([]byte(b.String()))
	if err != nil {
		r.Fail(v, "", "%s cannot be kept: %v", r.Label(v), err)
		return "", false
	}
	return got, true
}

func (r *Reader) appendJSON(b *strings.Builder, v *Value) bool {
	ok := true
	switch v.Kind {
	case KindTable:
		b.WriteByte('{')
		for i, f := range v.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			name, _ := json.Marshal(f.Name)
			b.Write(append(name, ':'))
			ok = r.appendJSON(b, f) && ok
		}
		b.WriteByte('}')
	case KindArray:
		b.WriteByte('[')
		for i, e := range v.Elements {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = r.appendJSON(b, e) && ok
		}
		b.WriteByte(']')
	case KindString:
		text, err := jsonvalue.Text(v.Text)
		if err != nil {
			r.Fail(v, "", "%s cannot be kept: %v", r.Label(v), err)
			return false
		}
		b.WriteString(string(text))
	case KindInteger:
		n, err := strconv.ParseInt(strings.TrimPrefix(v.Text, "+"), 0, 64)
		if err != nil {
			r.Fail(v, "", "%s is %s, expected an integer of 64 bits", r.Label(v), v.Text)
			return false
		}
		b.WriteString(strconv.FormatInt(n, 10))
	case KindFloat:
		text := strings.ReplaceAll(strings.TrimPrefix(v.Text, "+"), "_", "")
		if strings.ContainsAny(text, "in") { // inf, nan
			r.Fail(v, "", "%s is %s, which JSON cannot express, expected a number", r.Label(v), v.Text)
			return false
		}
		b.WriteString(text)
	case KindBool:
		b.WriteString(v.Text)
	default:
		r.Fail(v, "write it as a string", "%s is %v, which JSON cannot express", r.Label(v), v.Kind)
		return false
	}
	return ok
}
