package store

import (
	"net/url"
	"strings"
)

// PathKey returns the path of a node as a part of a key. It escapes characters that node names
// may contain and keys may not.
func PathKey(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
