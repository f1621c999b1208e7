// Package eval runs Sage programs that have been checked: agents under
// supervisors, and tests.
//
// A program is compiled once, into Go closures that are specialised by static
// type, and shared by all its agents. Each incarnation of an agent has a
// goroutine and a machine of its own; nothing that two agents can reach ever
// changes, so agents share values without copies and without locks.
//
// What the language leaves open is decided here:
//
//   - Int is 64 bits wide. A result that does not fit is an error, as are
//     division by zero and the remainder of it. Float follows IEEE 754.
//   - Lists, maps, records, tuples, options and strings are values: one
//     never changes because another variable does. A shared value is copied
//     when it is written to.
//   - Strings are UTF-8; their length, indices and slices count characters
//     (code points).
//   - Maps keep the order in which their keys were first set.
//   - A closure sees the variables around it, and changes of them, not copies.
//     One that goes to another agent takes their present values along.
//   - An agent whose on start, on waking or on message fails has failed, also
//     if its on error yields; the end of on start and yield are a normal end.
//     An agent with on message first serves its mailbox until it is stopped.
//   - A loop that does not end and a recursion that is too deep do not keep
//     an agent from stopping: loops and calls check for that regularly.
package eval
