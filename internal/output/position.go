package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// marks say how far the logs of an agent have been read: the last marks, by the names of nodes. Without a fleet there
// is one, and its name is empty.
//
// As text they are the Position of a line, for any controller of a fleet: NODE:MARK,NODE:MARK, or one mark alone.
type marks map[string]string

func (m marks) String() string {
	all := make([]string, 0, len(m))
	for _, node := range slices.Sorted(maps.Keys(m)) {
		if node == "" {
			all = append(all, m[node])
		} else {
			all = append(all, node+":"+m[node])
		}
	}
	return strings.Join(all, ",")
}

// parseMarks parses a Position. A mark without a name is that of this node: it was given before there was a fleet.
func parseMarks(text, thisNode string) (marks, error) {
	m := make(marks)
	for part := range strings.SplitSeq(text, ",") {
		node, mark, named := strings.Cut(part, ":")
		if !named {
			node, mark = thisNode, part
		}
		if _, err := logfile.ParseMark(mark); err != nil {
			return nil, fmt.Errorf("%w: parameter after: %w", api.ErrInvalid, err)
		}
		if _, twice := m[node]; twice || named && node == "" {
			return nil, fmt.Errorf("%w: parameter after: %.100q is not a position in a log", api.ErrInvalid, text)
		}
		m[node] = mark
	}
	return m, nil
}

// after returns the mark of a node.
func (m marks) after(node string) (logfile.Mark, bool) {
	text, ok := m[node]
	if !ok {
		return logfile.Mark{}, false
	}
	mark, err := logfile.ParseMark(text)
	return mark, err == nil
}
