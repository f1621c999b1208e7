// Package remote gives the controller of a fleet the runtimes of another node. The node runs a Server, an HTTP handler
// on its listener for nodes. The controller has a Client for each node, with a runtime.Runtime for each kind.
//
// A Client has one connection to its node, for requests and for what the node reports by itself: the states of all
// sessions that the client has, as far as they have changed. After a connection was lost, the client names its
// sessions again, and the node tells the state of each. So no end is missed, and a session has one end however often
// it is told. While there is no connection, sessions are Unknown, and nothing is concluded from that. Only terminals
// have connections of their own, so that a slow viewer delays nothing else.
//
// A start that the node has received runs to its end, with the connection or without. The client whose connection was
// lost gets ErrUnknown. Nothing that was sent on a connection is carried out after the next connection of the same
// client has been accepted, and Adopt does not answer from before a start that is in progress. So an Adopt that finds
// nothing proves that the start has not happened and will not happen.
//
// Each request that changes something carries the fence of the controller. The node refuses a fence that Options.Check
// refuses, and one that is older than another that it has accepted: a controller that was replaced cannot act. What
// only reads has none, although it may have the node record how an incarnation has ended.
//
// A command of an agent, such as a hook, is a process of the node's daemon. It ends when its connection is lost, when
// the node has lost its lease, and when another controller gives orders; it is never repeated. Its output comes in
// parts, one after the other.
//
// Logs stay on the node, and are read there in parts: each request says where the last part has ended.
//
// PIDs are those of the node. So are the times of starts, ends and lines of logs, by its clock; the other times are
// sent as ages, and hold by the clock of the reader.
package remote
