// Package eval runs checked Sage programs: agents under supervisors, and tests.
//
// A program is compiled once, to Go closures that are specialized by static type. All its agents
// share that code. Each incarnation of an agent has its own goroutine and machine. Values that two
// agents can reach never change, so agents share them without copies and locks.
//
// These rules fill in what the language leaves open:
//
//   - Int has 64 bits. A result that does not fit is an error, as are division and remainder by
//     zero. Float follows IEEE 754.
//   - Lists, maps, records, tuples, options and strings are values. A change through one variable is
//     never visible through another. A shared value is copied when it is written to.
//   - Strings are UTF-8. Lengths, indices and slices count characters (code points).
//   - Maps keep the order in which their keys were first set.
//   - A closure sees the variables around it and their changes. A closure that is sent to another
//     agent takes the present values along.
//   - An agent fails if its on start, on waking or on message fails, even if its on error yields.
//     The end of on start and a yield are a normal end. An agent with an on message serves its
//     mailbox after on start, until it is stopped.
//   - Endless loops and deep recursions do not keep an agent from stopping, since loops and calls
//     check for a stop regularly.
package eval
