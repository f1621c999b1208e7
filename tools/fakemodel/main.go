// Command fakemodel serves the APIs of language models on loopback, for tests of their clients.
//
//	fakemodel [--port 8900] [--ledger FILE] [--port-file FILE] [--quiet]
//
// A client is told http://127.0.0.1:8900/s/SCENARIO/TAG as the base URL of its API. The
// scenarios and all other paths are documented by: go doc ./internal/fakemodel
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/coppice-dev/coppice/internal/fakemodel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "fakemodel:", err)
		os.Exit(1)
	}
}

// errUsage is the error for wrong flags, which were reported.
var errUsage = errors.New("usage")

// run serves until the context ends or the ledger cannot be written.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fakemodel", flag.ContinueOnError)
	flags.SetOutput(stderr)
	port := flags.Int("port", 8900, "port of 127.0.0.1; 0 for one that is free")
	ledgerFile := flags.String("ledger", "", "append the ledger to `FILE`, a JSON object in each line")
	portFile := flags.String("port-file", "", "write the port to `FILE`, once it is open")
	quiet := flags.Bool("quiet", false, "do not print the URL")
	flags.Usage = func() {
		fmt.Fprint(stderr, "Serve the APIs of language models on loopback, for tests of their clients.\n\n"+
			"  fakemodel [FLAGS]\n\nScenarios: go doc ./internal/fakemodel\n\nFlags:\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errUsage
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	server := fakemodel.New()
	failed := make(chan error, 1)
	if *ledgerFile != "" {
		f, err := os.OpenFile(*ledgerFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("opening the ledger: %w", err)
		}
		defer f.Close()
		server.Observe(func(r fakemodel.Request) {
			if err := json.NewEncoder(f).Encode(r); err != nil {
				select {
				case failed <- fmt.Errorf("writing the ledger: %w", err):
				default: // only the first error is reported
				}
			}
		})
	}
	listener, err := server.Listen(*port)
	if err != nil {
		return err
	}
	defer listener.Close()
	if *portFile != "" {
		if err := writeFile(*portFile, strconv.Itoa(listener.Port())); err != nil {
			return fmt.Errorf("writing the port: %w", err)
		}
	}
	if !*quiet {
		fmt.Fprintf(stdout, "fakemodel listens on http://127.0.0.1:%d/s/SCENARIO/TAG\n", listener.Port())
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// writeFile writes a file as a whole, so that nothing reads half of it.
func writeFile(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
