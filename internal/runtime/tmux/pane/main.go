// Package pane implements the programs that Coppice runs in a tmux server: for a moment the
// launcher, which becomes the agent, and for each pane the keeper of its output log, which runs
// while the output of the pane is piped to it. Neither needs the daemon. The keeper also ends the agent at the deadline
// of the node, if there is one.
//
// The launcher becomes the agent only after a message of the daemon, on a connection that the
// launcher has made. Whatever else fails between the daemon and tmux, nothing runs that the
// daemon does not know of.
package pane

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Arg is the first argument of a program that must call Main with the rest.
const Arg = "pane"

const (
	execArg = "exec"
	logArg  = "log"
)

// LaunchArgs returns the arguments of a launcher: Arg, and those of Main.
func LaunchArgs(dir, token string) []string { return []string{Arg, execArg, dir, token} }

// KeepArgs returns the arguments of a keeper for the output of an incarnation. Without a token
// it replaces a keeper that was lost, and does not announce itself. deadline is a file of package deadline; it may be
// empty.
func KeepArgs(dir, token string, incarnation uint64, l runtime.Log, deadline string) []string {
	args := []string{Arg, logArg, dir, token, strconv.FormatUint(incarnation, 10), strconv.FormatInt(l.MaxSize, 10),
		strconv.Itoa(l.Keep)}
	if deadline != "" {
		args = append(args, deadline)
	}
	return args
}

// Main runs a launcher or a keeper.
func Main(args []string) int {
	var err error
	switch {
	case len(args) == 3 && args[0] == execArg:
		err = launch(args[1], args[2])
	case len(args) == 6 && args[0] == logArg:
		err = keep(args[1], args[2], args[3], args[4], args[5], "")
	case len(args) == 7 && args[0] == logArg:
		err = keep(args[1], args[2], args[3], args[4], args[5], args[6])
	default:
		fmt.Fprintln(os.Stderr, "coppice pane: started by coppice itself, not by people")
		return 2
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s coppice pane: %v\n", time.Now().Format(time.RFC3339), err)
		return 1
	}
	return 0
}

// hello connects to the daemon that starts an incarnation. The working directory is that of the
// slot, because the whole path of a socket may be too long.
func hello(role, token string) (*Conn, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: StartSocket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("the caller has given up this start: %w", err)
	}
	conn, err := NewConn(c)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(&Message{Type: role, Token: token, PID: os.Getpid()}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
