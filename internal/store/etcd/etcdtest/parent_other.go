//go:build !linux

package etcdtest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }

func awaitStopped(int) error { return nil }
