//go:build race

package eval_test

// raced reports whether the race detector is on. It needs extra memory.
const raced = true
