//go:build linux

// Command outputrate measures how fast a program can write lines: through cat
// into a file, and as an agent, through its shim into the log.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/project"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	impl := flag.String("impl", "", "raw-cat or coppice-up")
	coppice := flag.String("coppice", "", "the built coppice, for coppice-up")
	line := flag.Int("n", 100, "bytes of a line")
	size := flag.Int("mb", 1000, "how much is written, in MB")
	write := flag.String("write", "", "write that, and then to this file how long it took")
	flag.Parse()
	var err error
	if *write != "" {
		err = writeLines(*write, *line, *size)
	} else {
		var row report.Row
		if row, err = measure(*impl, *coppice, *line, *size); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(row)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outputrate:", err)
		os.Exit(1)
	}
}

// writeLines is the program that is measured: it measures itself.
func writeLines(result string, line, size int) error {
	chunk := bytes.Repeat(append(bytes.Repeat([]byte("x"), line-1), '\n'), max(1, 64<<10/line))
	begun := time.Now()
	for left := size * 1_000_000; left > 0; left -= len(chunk) {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return err
		}
	}
	took := strconv.FormatFloat(time.Since(begun).Seconds(), 'f', -1, 64)
	if err := os.WriteFile(result+".new", []byte(took), 0o600); err != nil {
		return err
	}
	return os.Rename(result+".new", result)
}

func measure(impl, coppice string, line, size int) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "outputrate-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	result := filepath.Join(dir, "took")
	self, err := os.Executable()
	if err != nil {
		return row, err
	}
	argv := []string{self, "-write", result, "-n", strconv.Itoa(line), "-mb", strconv.Itoa(size)}
	var used time.Duration
	switch impl {
	case "raw-cat":
		used, err = throughCat(dir, argv)
	case "coppice-up":
		used, err = throughShim(coppice, dir, result, argv)
	default:
		err = fmt.Errorf("unknown implementation %q", impl)
	}
	if err != nil {
		return row, err
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return row, err
	}
	took, err := strconv.ParseFloat(string(text), 64)
	gb := float64(size) / 1000
	return report.Row{Impl: impl, Scenario: "output", N: line, Metrics: map[string]float64{
		"mb_per_s": float64(size) / took, "s_per_gb": took / gb, "cpu_s_per_gb": used.Seconds() / gb,
	}}, err
}

// throughCat returns the time that cat has computed.
func throughCat(dir string, argv []string) (time.Duration, error) {
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		return 0, err
	}
	defer out.Close()
	writer, cat := exec.Command(argv[0], argv[1:]...), exec.Command("cat")
	cat.Stdout = out
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	cat.Stdin, writer.Stdout = r, w
	err = errors.Join(cat.Start(), writer.Start(), r.Close(), w.Close())
	if err == nil {
		err = errors.Join(writer.Wait(), cat.Wait())
	}
	if err != nil {
		return 0, err
	}
	return cat.ProcessState.UserTime() + cat.ProcessState.SystemTime(), nil
}

// throughShim returns the time that the shim of the agent has computed.
func throughShim(coppice, dir, result string, argv []string) (used time.Duration, err error) {
	if coppice, err = filepath.Abs(coppice); err != nil {
		return 0, err
	}
	// When it has written, it lives on until its shim has been looked at.
	quoted := "'" + strings.Join(argv, "' '") + "'"
	toml := fmt.Sprintf("[[agent]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \"\"\"\necho $PPID > shim; %s; "+
		"exec sleep 1000\"\"\"]\n", quoted)
	if err := os.WriteFile(filepath.Join(dir, "coppice.toml"), []byte(toml), 0o600); err != nil {
		return 0, err
	}
	run := func(args ...string) error {
		cmd := exec.Command(coppice, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("coppice %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	defer func() { err = errors.Join(err, run("down")) }()
	if err := run("up", "-d"); err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(result); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return 0, errors.New("the agent does not finish")
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "shim"))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("pid of the shim: %w", err)
	}
	return project.ProcessorOf(pid), nil
}
