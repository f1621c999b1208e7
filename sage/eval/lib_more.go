package eval

func moreNatives() map[string]native {
	isTag := func(tag int64) native {
		return func(_ *machine, a []Value) Value { return boolValue(a[0].n == tag) }
	}
	// payloadOf returns the payload of the variant with this tag as an option.
	payloadOf := func(tag int64) native {
		return func(m *machine, a []Value) Value {
			if a[0].n != tag {
				return none
			}
			return some(m.sharedPayload(a[0]))
		}
	}
	// mapped replaces the payload of the variant with this tag by the result of a function.
	mapped := func(tag int64) native {
		return func(m *machine, a []Value) Value {
			if a[0].n != tag {
				return a[0]
			}
			return newVariant(a[0].ref.(*variant).kind, m.call(a[1], m.sharedPayload(a[0])))
		}
	}
	unwrapOr := func(m *machine, a []Value) Value {
		if a[0].n == 0 {
			return m.sharedPayload(a[0])
		}
		return a[1]
	}
	unwrap := func(name string) native {
		return func(m *machine, a []Value) Value {
			switch v := a[0].ref.(*variant); v.kind {
			case noneKind:
				m.throw(Runtime, "%s: it is None", name)
			case errKind:
				m.throw(Runtime, "%s: it is Err(%s)", name, show(v.elems[0]))
			}
			return m.sharedPayload(a[0])
		}
	}
	// column returns the keys or the values of a map.
	column := func(pick func(k, v Value) Value) native {
		return func(m *machine, a []Value) Value {
			var all []Value
			for k, v := range a[0].ref.(*mapping).all() {
				m.tick()
				e := pick(k, v)
				m.share(e)
				all = append(all, e)
			}
			return m.list(all)
		}
	}
	return map[string]native{
		"map_get": get,
		"map_set": func(m *machine, a []Value) Value {
			x := m.ownMapping(a[0])
			x.set(m, a[1], a[2])
			a[0] = Value{ref: x}
			return unit
		},
		"map_has": func(_ *machine, a []Value) Value { return boolValue(a[0].ref.(*mapping).find(a[1]) >= 0) },
		"map_delete": func(m *machine, a []Value) Value {
			x := m.ownMapping(a[0])
			x.remove(a[1])
			a[0] = Value{ref: x}
			return unit
		},
		"map_keys":   column(func(k, _ Value) Value { return k }),
		"map_values": column(func(_, v Value) Value { return v }),

		"is_some":       isTag(0),
		"is_none":       isTag(1),
		"is_ok":         isTag(0),
		"is_err":        isTag(1),
		"unwrap":        unwrap("unwrap"),
		"unwrap_result": unwrap("unwrap_result"),
		"unwrap_err": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				m.throw(Runtime, "unwrap_err: it is Ok(%s)", show(a[0].payload()))
			}
			return m.sharedPayload(a[0])
		},
		"unwrap_or":        unwrapOr,
		"unwrap_or_result": unwrapOr,
		"unwrap_or_else": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return m.sharedPayload(a[0])
			}
			return m.call(a[1])
		},
		"map_option": mapped(0),
		"map_result": mapped(0),
		"map_err":    mapped(1),
		"or_option": func(_ *machine, a []Value) Value {
			if a[0].n != 0 {
				return a[1]
			}
			return a[0]
		},
		"ok":        payloadOf(0),
		"err_value": payloadOf(1),
	}
}

// sharedPayload returns the payload of a variant and marks it as shared.
func (m *machine) sharedPayload(v Value) Value {
	p := v.payload()
	m.share(p)
	return p
}
