package fakemodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// An object is a JSON object.
type object = map[string]any

// decode parses a JSON value. Numbers keep all their digits.
func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// decodeObject parses a body. Anything but a JSON object is an empty one: clients that send it get
// an answer nevertheless.
func decodeObject(body []byte) object {
	v, _ := decode(body)
	if o := asObject(v); o != nil {
		return o
	}
	return object{}
}

// at returns the value at a path of keys, or nil.
func at(v any, keys ...string) any {
	for _, key := range keys {
		o, _ := v.(object)
		v = o[key]
	}
	return v
}

// asObject returns an object, or nil if the value is none.
func asObject(v any) object {
	o, _ := v.(object)
	return o
}

// asList returns an array, or nil if the value is none.
func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

// asText returns a string, or "" if the value is none.
func asText(v any) string {
	s, _ := v.(string)
	return s
}

// last returns the last element, or nil.
func last(all []any) any {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// encode returns a value as JSON. The values of this package are those that JSON has, so that an
// error is not possible.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// encodeLines returns a value as JSON in several lines, which is streamed in several words.
func encodeLines(v any) string {
	var b bytes.Buffer
	_ = json.Indent(&b, []byte(encode(v)), "", " ")
	return b.String()
}

// with returns an object with other values of some keys.
func with(o object, changes object) object {
	all := make(object, len(o)+len(changes))
	for k, v := range o {
		all[k] = v
	}
	for k, v := range changes {
		all[k] = v
	}
	return all
}

// orElse returns a text, or another if it is empty.
func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
