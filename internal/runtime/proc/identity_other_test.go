//go:build !linux

package proc

func endFirstThread() { panic("only Linux needs this") }
