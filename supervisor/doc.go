// Package supervisor implements Erlang/OTP supervision for Go: a supervisor starts
// its children in order, watches them, restarts them by a strategy when they fail,
// and stops them in reverse order. Children are goroutines, other processes
// (Process), or supervisors, which makes a tree.
//
//	sup, err := supervisor.Start(ctx, supervisor.Spec{
//		Name:     "app",
//		Strategy: supervisor.RestForOne,
//		Children: []supervisor.ChildSpec{
//			{ID: "db", Run: serveDB, WaitReady: true},
//			{ID: "api", Run: serveAPI},
//		},
//	})
//	...
//	err = sup.Wait()
//
// The semantics are OTP's wherever Go allows it. The intended differences:
//
//   - A goroutine cannot be killed. One that does not return within its
//     shutdown time is abandoned: cut off by its incarnation number, reported
//     and counted. See Abandon. Work that must be killable belongs in a process.
//   - A supervisor that reaches its limit ends as a failure; OTP's ends with
//     shutdown, so that a transient one would silently stay down.
//   - The default limit is 5 restarts in 60 s (OTP: 1 in 5 s), and the window
//     is not rounded to seconds.
//   - Restarts may be delayed (Backoff). The child is Restarting meanwhile,
//     and any call or shutdown ends the delay.
//   - Calls are answered while a child is starting; a start delays
//     only its own caller and the siblings that come after it.
//
// Which children restart, and when, is decided by a pure state machine in
// strategy.go and decide.go: an event goes in, actions come out. One goroutine
// for each supervisor performs the actions.
package supervisor
