package proc

// Mark identifies what a program has started for one purpose among all its descendants. A process
// passes it on to all that it starts, also after it has left its parent, group and session and has
// cleared its environment. 0 is none.
type Mark uint64

// Stray is a process that another child of this program has left behind.
type Stray struct {
	PID  int
	Mark Mark // 0 if it has none that is known
}
