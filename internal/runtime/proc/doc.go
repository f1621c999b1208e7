// Package proc runs operating system processes as children of a supervisor. It sees every exit,
// loses no output, and leaves nothing of a stopped process behind.
//
// Start runs a Command in its own process group and returns a Process, which is a
// supervisor.Process. Package ready adds readiness.
//
// The rules:
//
//   - The exit is that of the leader, the process that was started. A grandchild that still has
//     stdout open neither hides nor delays it.
//   - The rest of the group is killed before the leader is reaped. After Stop, on Linux, it first
//     has time until Kill to end on its own. Until the leader is reaped, no other process gets its
//     id or that of its group. After that no signal is sent to either.
//   - Signals go through a pidfd, or are sent while the leader is not reaped. They never go to a
//     number that may have been reused.
//   - Waiting needs no operating system thread where the kernel has pidfds (Linux 5.4): they are
//     in Go's network poller. Elsewhere each child blocks a thread.
//   - On Linux a leader dies with the program that started it (PDEATHSIG). The kernel ties that to
//     the *thread* that forked. Go ends a thread only when a goroutine that is locked to it returns.
//     So Start must not be called from a goroutine that called runtime.LockOSThread and will end
//     without unlocking.
//   - A slow reader of the output slows down the agent, never the supervisor.
//
// The limit: a descendant is not found if it left the group (setsid) and all its parents up to
// the leader have ended. That takes a subreaper or a control group (Command.Group).
package proc
