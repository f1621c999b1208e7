//go:build race

package eval_test

// raced: the race detector watches, which takes memory.
const raced = true
