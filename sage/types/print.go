package types

import "strings"

// String returns the type as written in a program. An unknown type is _, and a very long one is cut
// off.
func (t *Type) String() string {
	p := printer{left: 60}
	p.typ(t)
	return p.String()
}

type printer struct {
	strings.Builder
	left int // parts that may still be written
}

var names = [...]string{
	Invalid: "_", Never: "Never", Unit: "Unit", Bool: "Bool", Int: "Int", Float: "Float", String: "String",
	List: "List", Map: "Map", Tuple: "", Func: "Fn", Agent: "Agent", Var: "_",
}

func (p *printer) typ(t *Type) {
	t = t.Resolve()
	if p.left--; p.left < 0 {
		p.WriteString("…")
		return
	}
	switch t.Kind {
	case Record, Enum, Param:
		p.WriteString(t.Decl.Name)
		p.args("<", t.Elems, ">")
	case Agent:
		p.WriteString("Agent<" + t.Decl.Name + ">")
	case Tuple:
		p.args("(", t.Elems, ")")
	case Func:
		p.WriteString("Fn(")
		p.args("", t.Params(), "")
		p.WriteString(") -> ")
		p.typ(t.Result())
		if t.Fails {
			p.WriteString(" fails")
		}
	default:
		p.WriteString(names[t.Kind])
		p.args("<", t.Elems, ">")
	}
}

func (p *printer) args(open string, types []*Type, closing string) {
	if len(types) == 0 {
		return
	}
	p.WriteString(open)
	for i, t := range types {
		if i > 0 {
			p.WriteString(", ")
		}
		if p.left <= 0 {
			p.WriteString("…")
			break
		}
		p.typ(t)
	}
	p.WriteString(closing)
}
