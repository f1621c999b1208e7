// Package proc makes an operating system process a child that a supervisor
// can trust: its exit is always seen, its output never lost, and nothing of
// it stays behind when it is stopped.
//
// Start runs a Command in a process group of its own and returns a Process,
// which is a supervisor.Process. Begin adds readiness (Probe).
//
// The rules it keeps:
//
//   - The exit is the exit of the leader, the process that was started. A
//     grandchild that still holds stdout neither hides nor delays it.
//   - What is left of the group is killed before the leader is reaped. After
//     Stop, on Linux, it first has until Kill to end by itself. As long as the
//     leader is not reaped its process id, and so the group's id, is given to
//     no other process; after that no signal is sent to either.
//   - Signals go through a pidfd or are sent while the leader is not reaped,
//     never to a number that may mean somebody else by now.
//   - Waiting costs no operating system thread where the kernel has pidfds
//     (Linux 5.4): they are parked in Go's network poller. Elsewhere each
//     child holds a thread.
//   - On Linux a leader dies with the program that started it (PDEATHSIG).
//     The kernel ties that to the *thread* that forked. Go ends a thread only
//     when a goroutine that is locked to it returns, so Start must not be
//     called from a goroutine that called runtime.LockOSThread and will end
//     without unlocking.
//   - A slow reader of the output slows down the agent, never the supervisor.
//
// What it cannot do: a descendant that left the group (setsid) and whose
// parents up to the leader have all ended is not found; that takes a
// subreaper or a control group (Command.Group).
package proc
