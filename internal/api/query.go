package api

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is a field of a request or a response, with its name in JSON.
type field struct {
	reflect.StructField
	name     string
	optional bool
}

// inHeader reports whether a field of a request is read from a header. Clients of this package do
// not send it.
func (f field) inHeader() bool { return f.Tag.Get("in") == "header" }

// fieldsOf returns the fields of a struct that have a JSON name, including those of embedded
// structs.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" {
			all = append(all, field{f, name, strings.Contains(options, "omit")})
		}
	}
	return all
}

// paramsOf returns the parameters of a request type.
func paramsOf(t reflect.Type) []param {
	var params []param
	for _, f := range fieldsOf(t) {
		p := param{name: f.name, required: !f.optional, header: f.inHeader(), doc: f.Tag.Get("doc")}
		p.maximum, _ = strconv.ParseUint(f.Tag.Get("maximum"), 10, 64)
		if n, err := strconv.Atoi(f.Tag.Get("default")); err == nil {
			p.defaultValue = n
		}
		kind := f.Type
		if kind.Kind() == reflect.Slice {
			p.repeated, kind = true, kind.Elem()
		} else if kind.Kind() == reflect.Pointer { // nil means that the parameter is missing
			kind = kind.Elem()
		}
		switch kind.Kind() {
		case reflect.String:
			p.kind = "string"
		case reflect.Bool:
			p.kind = "boolean"
		case reflect.Uint64:
			p.kind = "integer"
		default:
			panic(fmt.Sprintf("field %s of %v is no parameter of a query", f.Name, t))
		}
		params = append(params, p)
	}
	return params
}

// decode sets the fields of a request from a query that was checked.
func (q query) decode(request any) {
	into := reflect.ValueOf(request).Elem()
	for _, f := range fieldsOf(into.Type()) {
		switch v := into.FieldByIndex(f.Index); v.Kind() {
		case reflect.Slice:
			v.Set(reflect.ValueOf(slices.Clone(q[f.name])))
		case reflect.String:
			v.SetString(q.text(f.name))
		case reflect.Bool:
			v.SetBool(q.flag(f.name))
		case reflect.Uint64:
			v.SetUint(q.number(f.name))
		case reflect.Pointer:
			if q.text(f.name) != "" {
				n := q.number(f.name)
				v.Set(reflect.ValueOf(&n))
			}
		}
	}
}

// encodeQuery is the inverse of query.decode.
func encodeQuery(request any) url.Values {
	values := url.Values{}
	from := reflect.ValueOf(request)
	for _, f := range fieldsOf(from.Type()) {
		switch v := from.FieldByIndex(f.Index); {
		case f.optional && v.IsZero(), f.inHeader():
		case v.Kind() == reflect.Slice:
			values[f.name] = slices.Clone(v.Interface().([]string))
		case v.Kind() == reflect.Bool:
			values.Set(f.name, strconv.FormatBool(v.Bool()))
		case v.Kind() == reflect.Uint64, v.Kind() == reflect.Pointer:
			values.Set(f.name, strconv.FormatUint(reflect.Indirect(v).Uint(), 10))
		default:
			values.Set(f.name, v.String())
		}
	}
	return values
}
