package eval

func moreNatives() map[string]native {
	isTag := func(tag int64) native {
		return func(_ *machine, a []Value) Value { return boolValue(a[0].n == tag) }
	}
	return map[string]native{
		"map_get": func(m *machine, a []Value) Value {
			v, found := a[0].ref.(*mapping).get(a[1])
			m.share(v)
			return option(v, found)
		},
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
		"map_keys": func(m *machine, a []Value) Value {
			var keys []Value
			for k := range a[0].ref.(*mapping).all() {
				m.tick()
				m.share(k)
				keys = append(keys, k)
			}
			return m.list(keys)
		},
		"map_values": func(m *machine, a []Value) Value {
			var vals []Value
			for _, v := range a[0].ref.(*mapping).all() {
				m.tick()
				m.share(v)
				vals = append(vals, v)
			}
			return m.list(vals)
		},

		"is_some": isTag(0),
		"is_none": isTag(1),
		"is_ok":   isTag(0),
		"is_err":  isTag(1),
		"unwrap": func(m *machine, a []Value) Value {
			v := a[0].ref.(*variant)
			switch v.kind {
			case noneKind:
				m.throw(Runtime, "unwrap: there is nothing, it is None")
			case errKind:
				m.throw(Runtime, "unwrap: it is Err(%s)", show(v.elems[0]))
			}
			return m.carried(a[0])
		},
		"unwrap_result": func(m *machine, a []Value) Value {
			if a[0].n != 0 {
				m.throw(Runtime, "unwrap_result: it is Err(%s)", show(a[0].payload()))
			}
			return m.carried(a[0])
		},
		"unwrap_err": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				m.throw(Runtime, "unwrap_err: it is Ok(%s)", show(a[0].payload()))
			}
			return m.carried(a[0])
		},
		"unwrap_or": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return m.carried(a[0])
			}
			return a[1]
		},
		"unwrap_or_result": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return m.carried(a[0])
			}
			return a[1]
		},
		"unwrap_or_else": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return m.carried(a[0])
			}
			return m.call(a[1])
		},
		"map_option": func(m *machine, a []Value) Value {
			if a[0].n != 0 {
				return a[0]
			}
			return some(m.call(a[1], m.carried(a[0])))
		},
		"or_option": func(_ *machine, a []Value) Value {
			if a[0].n != 0 {
				return a[1]
			}
			return a[0]
		},
		"map_result": func(m *machine, a []Value) Value {
			if a[0].n != 0 {
				return a[0]
			}
			return ok(m.call(a[1], m.carried(a[0])))
		},
		"map_err": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return a[0]
			}
			return bad(m.call(a[1], m.carried(a[0])))
		},
		"ok": func(m *machine, a []Value) Value {
			if a[0].n != 0 {
				return none
			}
			return some(m.carried(a[0]))
		},
		"err_value": func(m *machine, a []Value) Value {
			if a[0].n == 0 {
				return none
			}
			return some(m.carried(a[0]))
		},
	}
}

// carried returns the value of a variant, marked as shared.
func (m *machine) carried(v Value) Value {
	p := v.payload()
	m.share(p)
	return p
}
