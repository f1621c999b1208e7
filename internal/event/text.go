package event

import "strings"

// Text returns the message of an event without the name of what it is about, for where
// that is shown already. Messages begin with the path of a node, or with "order" and the
// name of an order.
func (e Event) Text() string {
	if e.Path == "" {
		return e.Message
	}
	if name, ok := strings.CutPrefix(e.Path, "orders/"); ok {
		return strings.TrimPrefix(e.Message, "order "+name+" ")
	}
	return strings.TrimPrefix(e.Message, e.Path+" ")
}
