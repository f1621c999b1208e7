// Command otptrace shows that the supervisor library behaves like Erlang's supervisor. It runs
// the scripts of testdata/otporacle.erl on this library and prints the same traces, byte for
// byte.
//
//	otptrace < scripts > traces
//
// It compares decisions: which children are started and stopped, in which order, with which
// results. An Erlang supervisor does one thing at a time and leaves everything else in its
// mailbox; the library answers calls meanwhile. To ask both the same questions in the same
// situations, otptrace puts a mailbox in front of the library (mailbox.go). It delivers an exit
// or a call when the supervisor has finished the one before.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otptrace:", err)
		os.Exit(1)
	}
}

// workers is the number of scripts that run concurrently. Scripts mostly wait for shutdown times,
// so it does not depend on the number of processors.
const workers = 8

// run prints the traces of all scripts, in order. It stops at the first script that cannot be
// run.
func run(in io.Reader, out io.Writer) error {
	scripts, err := readScripts(in)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	for _, c := range playAll(scripts) {
		r := <-c
		if r.err != nil {
			return r.err
		}
		w.Write(r.text())
		fmt.Fprintln(w, "---")
	}
	return w.Flush()
}

// playAll starts running the scripts and returns a channel for each result.
func playAll(scripts []script) []chan result {
	results := make([]chan result, len(scripts))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	slots := make(chan struct{}, workers)
	go func() {
		for i, s := range scripts {
			slots <- struct{}{}
			go func() {
				results[i] <- play(s)
				<-slots
			}()
		}
	}()
	return results
}

// text returns the printed trace.
func (r result) text() (b []byte) {
	for _, line := range r.trace {
		b = append(append(b, toLatin1(line)...), '\n')
	}
	return b
}
