package lsp

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
)

func covers(n syntax.Node, offset int) bool {
	s := n.Extent()
	return s.Valid() && int(s.Start) <= offset && offset <= int(s.End)
}

func (c *completer) words(kind int, words ...string) {
	for _, w := range words {
		c.add(completionItem{Label: w, Kind: kind, SortText: "3" + w})
	}
}

func (c *completer) add(item completionItem) {
	if item.Label == "" || item.Label == placeholder || c.seen[item.Label] {
		return
	}
	c.seen[item.Label] = true
	if item.SortText == "" {
		item.SortText = "1" + item.Label
	}
	c.items = append(c.items, item)
}

// object offers an object by its name.
func (c *completer) object(o *check.Object) {
	item := completionItem{Label: o.Name, Kind: kindOf(o), Detail: firstLine(signature(o))}
	if doc := docOf(o); doc != "" {
		item.Documentation = markdown(doc)
	}
	if o.Kind == check.Variable || o.Kind == check.Parameter {
		item.SortText = "0" + o.Name
	}
	c.add(item)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func kindOf(o *check.Object) int {
	switch o.Kind {
	case check.Belief, check.RecordField:
		return itemField
	case check.BeliefMethod, check.ToolFunc:
		return itemMethod
	case check.Const:
		return itemConstant
	case check.Function, check.LibraryFunc:
		return itemFunction
	case check.RecordName:
		return itemStruct
	case check.EnumName:
		return itemEnum
	case check.VariantName:
		return itemMember
	case check.TypeParam:
		return itemType
	case check.AgentName, check.SupervisorName:
		return itemClass
	case check.ModuleName, check.ToolName:
		return itemModule
	}
	return itemVariable
}
