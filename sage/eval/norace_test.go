//go:build !race

package eval_test

const raced = false
