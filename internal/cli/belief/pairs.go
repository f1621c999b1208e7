package belief

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
)

// checkPairs checks the arguments of the set commands.
func checkPairs(args []string) error {
	if len(args) == 2 && args[1] == "-" {
		return nil
	}
	if len(args) == 0 {
		return errors.New("expected NAME=JSON, or NAME - to read the value from standard input")
	}
	for _, a := range args {
		if !strings.Contains(a, "=") {
			return fmt.Errorf("%s is not of the form NAME=JSON; NAME - reads the value from standard input",
				spec.Quote(a))
		}
	}
	return nil
}

// parsePairs parses the arguments of the set commands.
func parsePairs(stdin *os.File, args []string, asString bool) (value.Named, error) {
	set := make(value.Named, len(args))
	if len(args) == 2 && args[1] == "-" {
		text, err := readBounded(stdin, 2*value.MaxBytes)
		if err != nil {
			return nil, err
		}
		if len(text) > 2*value.MaxBytes {
			return nil, command.Usagef("%s: more than %d bytes came in; a value has at most %d: keep it in a "+
				"file and its path in the belief", plaintext.Line(args[0]), 2*value.MaxBytes, value.MaxBytes)
		}
		set[args[0]], err = parseGiven(args[0], text, asString)
		return set, err
	}
	for _, a := range args {
		name, text, _ := strings.Cut(a, "=")
		if _, twice := set[name]; twice {
			return nil, command.Usagef("%s is given twice", spec.Quote(name))
		}
		v, err := parseGiven(name, []byte(text), asString)
		if err != nil {
			return nil, err
		}
		set[name] = v
	}
	return set, nil
}

// readBounded reads at most one byte more than most, so that the caller can detect an excess.
func readBounded(f *os.File, most int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(f, most+1))
}

// parseGiven parses a value from the command line or standard input.
func parseGiven(name string, text []byte, asString bool) (v value.Value, err error) {
	if asString {
		v, err = value.Text(string(text))
	} else {
		v, err = value.Parse(text)
	}
	if err == nil {
		return v, nil
	}
	hint := ""
	if _, large := errors.AsType[*value.LimitError](err); !asString && !large {
		short := plaintext.Line(string(text[:min(len(text), 40)]))
		if len(text) > 40 || strings.ContainsAny(short, "'\"\n") {
			short = "..."
		}
		hint = fmt.Sprintf("; text needs quotes, for the shell as well: '%s=%q', or --string",
			plaintext.Line(name), short)
	}
	return "", command.Usagef("%s: %w%s", plaintext.Line(name), err, hint)
}
