// Command otptrace shows that the supervisor library does what Erlang's supervisor
// does: it runs the scripts of testdata/otporacle.erl on this library and prints
// the same traces, byte for byte.
//
//	otptrace < scripts > traces
//
// What is compared is decisions: who is started and stopped, in which order,
// with which results. An Erlang supervisor does one thing at a time and lets
// everything else wait in its mailbox; the library answers calls meanwhile.
// So that both are asked the same questions in the same situations, otptrace
// puts a mailbox in front of the library (mailbox.go): an exit or a call is
// delivered when the supervisor has done with the one before.
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

// workers is how many scripts run at a time. Scripts mostly wait for shutdown
// times, so this has little to do with the number of processors.
const workers = 8

// run prints the traces of all scripts, in order. A script that cannot be run
// ends it, after the traces of the scripts before.
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

// playAll runs some scripts at a time and returns where to expect the results.
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

// text is the trace as it is printed.
func (r result) text() (b []byte) {
	for _, line := range r.trace {
		b = append(append(b, toLatin1(line)...), '\n')
	}
	return b
}
