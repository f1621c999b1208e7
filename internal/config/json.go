package config

import (
	"encoding/json"
	"strconv"
	"strings"

	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

// json makes JSON of a value.
func (r *reader) json(v *value) (jsonvalue.Value, bool) {
	var b strings.Builder
	if !r.appendJSON(&b, v) {
		return "", false
	}
	got, err := jsonvalue.Parse([]byte(b.String()))
	if err != nil {
		r.fail(v.at, v, "", "%s cannot be kept: %v", r.label(v), err)
		return "", false
	}
	return got, true
}

func (r *reader) appendJSON(b *strings.Builder, v *value) (ok bool) {
	switch v.kind {
	case isTable:
		ok = true
		for i, f := range v.fields {
			b.WriteString([]string{"{", ","}[min(i, 1)])
			name, _ := json.Marshal(f.name)
			b.Write(append(name, ':'))
			ok = r.appendJSON(b, f) && ok
		}
		if len(v.fields) == 0 {
			b.WriteByte('{')
		}
		b.WriteByte('}')
		return ok
	case isArray:
		ok = true
		b.WriteByte('[')
		for i, e := range v.elements {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = r.appendJSON(b, e) && ok
		}
		b.WriteByte(']')
		return ok
	case isString:
		text, err := jsonvalue.Text(v.text)
		if err != nil {
			r.fail(v.at, v, "", "%s cannot be kept: %v", r.label(v), err)
			return false
		}
		b.WriteString(string(text))
	case isInteger:
		n, err := strconv.ParseInt(strings.TrimPrefix(v.text, "+"), 0, 64)
		if err != nil {
			r.fail(v.at, v, "", "%s is %s, expected an integer of 64 bits", r.label(v), v.text)
			return false
		}
		b.WriteString(strconv.FormatInt(n, 10))
	case isFloat:
		text := strings.ReplaceAll(strings.TrimPrefix(v.text, "+"), "_", "")
		if strings.ContainsAny(text, "in") { // inf, nan
			r.fail(v.at, v, "", "%s is %s, which JSON has not, expected a number", r.label(v), v.text)
			return false
		}
		b.WriteString(text)
	case isBool:
		b.WriteString(v.text)
	default:
		r.fail(v.at, v, "write it as a string", "%s is %v, which JSON has not", r.label(v), v.kind)
		return false
	}
	return true
}
