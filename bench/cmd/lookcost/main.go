//go:build linux

// Command lookcost measures what it costs to look at n agents that sleep: the page of all of them and a scrape of their
// metrics, next to what process-compose answers with and to a file of the same size.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/project"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	impl := flag.String("impl", "coppice-up", "coppice-up, process-compose or raw")
	program := flag.String("program", "", "the built coppice or process-compose")
	n := flag.Int("n", 1000, "agents")
	rounds := flag.Int("rounds", 50, "requests of each kind")
	flag.Parse()
	row, err := measure(*impl, *program, *n, *rounds)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lookcost:", err)
		os.Exit(1)
	}
}

const (
	upTime   = 3 * time.Minute // for the start of all processes
	askPause = time.Second
)

func measure(impl, program string, n, rounds int) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "lookcost-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	row = report.Row{Impl: impl, Scenario: "look", N: n, Metrics: map[string]float64{}}
	switch impl {
	case "coppice-up":
		err = ofCoppice(program, dir, n, rounds, row.Metrics)
	case "process-compose":
		err = ofCompose(program, dir, n, rounds, row.Metrics)
	case "raw":
		err = ofFile(n, rounds, row.Metrics)
	default:
		err = fmt.Errorf("unknown implementation %q", impl)
	}
	return row, err
}

// freeAddress returns an address on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ofCoppice measures the page and the metrics of a daemon.
func ofCoppice(program, dir string, n, rounds int, into map[string]float64) (err error) {
	page, err := freeAddress()
	if err != nil {
		return err
	}
	metrics, err := freeAddress()
	if err != nil {
		return err
	}
	var toml strings.Builder
	fmt.Fprintf(&toml, "[project]\nname = \"bench\"\n\n[web]\nlisten = %q\n\n[metrics]\nlisten = %q\n", page, metrics)
	for i := range n {
		fmt.Fprintf(&toml, "\n[[agent]]\nname = \"a%d\"\ncommand = [\"sleep\", \"1000000\"]\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "coppice.toml"), []byte(toml.String()), 0o600); err != nil {
		return err
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("coppice %s: %w: %s", args[0], err, out)
		}
		return string(out), err
	}
	defer func() {
		_, e := run("down")
		err = errors.Join(err, e)
	}()
	if _, err := run("up", "-d"); err != nil {
		return err
	}
	link, err := run("web")
	if err != nil {
		return err
	}
	_, login, _ := strings.Cut(strings.Fields(link)[0], "/login")
	c := newClient()
	if _, _, err := c.get("http://" + page + "/login" + login); err != nil {
		return err
	}
	if into["page_first_ms"], into["page_kb"], err = c.get("http://" + page + "/tree"); err != nil {
		return err
	}
	if into["page_p50_ms"], _, err = c.median("http://"+page+"/tree", rounds); err != nil {
		return err
	}
	before := project.Processor(dir)
	if into["scrape_p50_ms"], into["scrape_kb"], err = c.median("http://"+metrics+"/metrics", rounds); err != nil {
		return err
	}
	into["scrape_cpu_ms"] = float64(project.Processor(dir)-before) / float64(time.Millisecond) / float64(rounds)
	return nil
}

// ofCompose measures the list of all processes that process-compose answers with.
func ofCompose(program, dir string, n, rounds int, into map[string]float64) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(address, ":")
	var yaml strings.Builder
	yaml.WriteString("version: \"0.5\"\nprocesses:\n")
	for i := range n {
		fmt.Fprintf(&yaml, "  a%d:\n    entrypoint: [\"sleep\", \"1000000\"]\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(yaml.String()), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(program, "up", "-f", "compose.yaml", "-t=false", "-p", port, "-L", "log")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // it would leave its processes behind
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait() // it ends with the code of an agent that it has stopped
	}()
	c, url := newClient(), "http://"+address+"/processes"
	if into["page_first_ms"], into["page_kb"], err = c.awaitRunning(url, n); err != nil {
		return err
	}
	if into["page_first_ms"] > 1000 { // a minute for 1,000 processes, each of which it measures for a while
		into["page_p50_ms"] = into["page_first_ms"]
		return nil
	}
	into["page_p50_ms"], _, err = c.median(url, rounds)
	return err
}

// Sizes of the answers of coppice for each agent, in bytes, as they are sent.
const (
	pageSize   = 17
	scrapeSize = 400
)

// ofFile measures a server of answers that are made already, of the sizes of those of coppice.
func ofFile(n, rounds int, into map[string]float64) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for path, size := range map[string]int{"/tree": pageSize * n, "/metrics": scrapeSize * n} {
		body := make([]byte, size)
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	}
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Shutdown(context.Background())
		<-served
	}()
	c, base := newClient(), "http://"+l.Addr().String()
	if into["page_first_ms"], into["page_kb"], err = c.get(base + "/tree"); err != nil {
		return err
	}
	if into["page_p50_ms"], _, err = c.median(base+"/tree", rounds); err != nil {
		return err
	}
	into["scrape_p50_ms"], into["scrape_kb"], err = c.median(base+"/metrics", rounds)
	return err
}

// client is a browser or a Prometheus.
type client struct{ http.Client }

func newClient() *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // without options it does not fail
	}
	return &client{http.Client{Jar: jar, Timeout: upTime}}
}

// get returns the time until an answer was read, in ms, and its size as it was sent, in kB.
func (c *client) get(url string) (ms, kb float64, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	if strings.Contains(url, "/tree") {
		req.Header.Set("Accept-Encoding", "gzip") // which then is not undone
	}
	began := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	size, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return float64(time.Since(began).Microseconds()) / 1000, float64(size) / 1000, err
}

// median gets an answer again and again.
func (c *client) median(url string, rounds int) (ms, kb float64, err error) {
	all := make([]float64, rounds)
	for i := range all {
		if all[i], kb, err = c.get(url); err != nil {
			return 0, 0, err
		}
	}
	return report.Summarize(all).Median, kb, nil
}

// awaitRunning waits until process-compose lists n running processes, and returns how long that answer has taken, in
// ms, and its size, in kB.
func (c *client) awaitRunning(url string, n int) (ms, kb float64, err error) {
	for end := time.Now().Add(upTime); time.Now().Before(end); time.Sleep(askPause) {
		began := time.Now()
		resp, err := c.Client.Get(url)
		if err != nil {
			continue // it does not listen yet
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		took := time.Since(began)
		var list struct {
			Data []struct {
				Running bool `json:"is_running"`
			}
		}
		if err != nil || json.Unmarshal(body, &list) != nil {
			continue
		}
		running := 0
		for _, p := range list.Data {
			if p.Running {
				running++
			}
		}
		if running == n {
			return float64(took.Microseconds()) / 1000, float64(len(body)) / 1000, nil
		}
	}
	return 0, 0, fmt.Errorf("process-compose has not started %d processes within %v", n, upTime)
}
