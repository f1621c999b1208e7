package main

// entry does what main does, without a runtime. It is no Go function: it
// finds the arguments where the kernel leaves them, and never returns.
func entry()

var _ = entry // called by the kernel alone
