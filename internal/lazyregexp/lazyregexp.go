// Package lazyregexp compiles regular expressions when they are first used. Most processes of the
// one program never need most of them, and there may be many shims: each compiled expression
// takes up to 110 kB of memory in each of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles expr at its first call. The function may be called
// concurrently. It panics if expr is not valid, like regexp.MustCompile.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
