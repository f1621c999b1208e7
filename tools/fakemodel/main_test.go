package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/fakemodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, portFile := filepath.Join(dir, "ledger"), filepath.Join(dir, "port")
	ctx, stop := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--port", "0", "--ledger", ledger, "--port-file", portFile}, stdout, io.Discard)
		stdout.CloseWithError(err)
		done <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port, err := os.ReadFile(portFile)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + string(port) + "/s/"
	if want := "fakemodel listens on " + base + "SCENARIO/TAG\n"; line != want {
		t.Errorf("printed %q, want %q", line, want)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(base+"normal/t/v1/messages", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	var row fakemodel.Request
	err = json.Unmarshal(text, &row)
	if err != nil || row.N != 1 || row.Tag != "t" || row.Usage != fakemodel.AnswerUsage() {
		t.Errorf("the ledger has %s: %v", text, err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 2 {
		t.Errorf("there are files left: %v", names)
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing", "file")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--port", "0", "--ledger", missing}, "opening the ledger: "},
		{[]string{"--port", "0", "--port-file", missing}, "writing the port: "},
		{[]string{"--port", "-1"}, "listening for model requests: "},
		{[]string{"normal"}, `unexpected argument "normal"`},
		{[]string{"--what"}, errUsage.Error()},
		{[]string{"--help"}, flag.ErrHelp.Error()},
	} {
		err := run(t.Context(), test.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.args, err, test.want)
		}
	}
}

// A ledger that cannot be written ends the server: a test would compare with half of it.
func TestRunFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(t.Context(), []string{"--port", "0", "--ledger", "/dev/full"}, stdout, io.Discard)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(strings.TrimPrefix(line, "fakemodel listens on "), "SCENARIO/TAG\n")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(base+"normal/t/v1/messages", "application/json", strings.NewReader("{}"))
	if err == nil {
		response.Body.Close()
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "writing the ledger") {
		t.Errorf("got %v", err)
	}
}
