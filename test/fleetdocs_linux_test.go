package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// etcdDir returns the directory of the program etcd.
func etcdDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".cache", "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err != nil {
		exectest.Missing(t, fmt.Errorf("%w; install it with: make deps", err))
	}
	return dir
}

// hosts stand in for the machines a, b and c of docs/fleet.md. They have addresses and directories of their own on
// this one.
type hosts struct {
	t        *testing.T
	dir, net string
	env      []string
}

func newHosts(t *testing.T) hosts {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	coppice, err := exec.LookPath("coppice")
	if err != nil {
		t.Fatal(err)
	}
	m := hosts{t: t, dir: dir, net: fmt.Sprintf("127.%d.%d", os.Getpid()/256%254+1, os.Getpid()%256)}
	bin := filepath.Join(dir, "bin")
	for name, script := range map[string]string{
		"hostname": `echo $HOST`,
		"ssh":      `HOST=$1; export HOST; shift; cd "$MACHINES/$HOST"; exec sh -ec "$*"`,
		"scp":      `cp "$2" "$MACHINES/${3%%:*}/${3#*:}"`,
		// All names are those of this machine.
		"coppice": `case "$1 $2" in "cluster init" | "cluster join")
			case $HOST in a) at=$NET.1:7420 ;; b) at=$NET.2:7420 ;; c) at=$NET.3:7420 ;; esac
			exec "$COPPICE" "$@" --name $HOST --listen $at --advertise $at ;;
		esac
		exec "$COPPICE" "$@"`,
	} {
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		exectest.Write(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
	}
	for _, host := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(dir, host), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.env = append(os.Environ(), "PATH="+bin+":"+etcdDir(t)+":"+os.Getenv("PATH"), "MACHINES="+dir, "NET="+m.net,
		"COPPICE="+coppice)
	return m
}

// address returns the IP address of a machine.
func (m hosts) address(host string) string {
	return fmt.Sprintf("%s.%d", m.net, strings.Index("abc", host)+1)
}

// command returns a shell that runs commands of the page on a machine.
func (m hosts) command(host, script string) *exec.Cmd {
	replaced := []string{
		"etcd://a,b,c/", fmt.Sprintf("etcd://%s,%s,%s/", m.address("a"), m.address("b"), m.address("c")),
		"http://0.0.0.0:", "http://" + m.address(host) + ":", "http://$name:", "http://" + m.address(host) + ":",
		"/var/lib/etcd", filepath.Join(m.dir, host, "etcd"), "etcd --name", "exec etcd --name",
	}
	for _, host := range []string{"a", "b", "c"} {
		replaced = append(replaced, "http://"+host+":", "http://"+m.address(host)+":")
	}
	cmd := exec.Command("sh", "-ec", strings.NewReplacer(replaced...).Replace(script))
	cmd.Dir, cmd.Env = filepath.Join(m.dir, host), append(m.env, "HOST="+host)
	return cmd
}

// run runs commands that must succeed.
func (m hosts) run(host, script string) string {
	m.t.Helper()
	out, err := m.command(host, script).CombinedOutput()
	if err != nil {
		m.t.Fatalf("on %s: %v\n%s\n%s", host, err, script, out)
	}
	return string(out)
}

// wants runs commands until they print what matches.
func (m hosts) wants(host, script, pattern string) {
	m.t.Helper()
	var out []byte
	defer func() {
		if m.t.Failed() {
			m.t.Logf("on %s: %s: %s", host, script, out)
		}
	}()
	eventually(m.t, fmt.Sprintf("%q", pattern), func() bool {
		out, _ = m.command(host, script).CombinedOutput()
		return regexp.MustCompile(pattern).Match(out)
	})
}

// startEtcd runs the block of the page on each machine.
func (m hosts) startEtcd(block string) {
	m.t.Helper()
	for _, host := range []string{"a", "b", "c"} {
		newChildProcess(m.t, m.command(host, block)).start(filepath.Join(m.dir, host))
	}
	for _, host := range []string{"a", "b", "c"} {
		eventually(m.t, "etcd on "+host, func() bool {
			ctx, cancel := context.WithTimeout(m.t.Context(), waitTimeout)
			defer cancel()
			url := "http://" + m.address(host) + ":2379/readyz"
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				m.t.Fatal(err)
			}
			answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
}

// The commands of docs/fleet.md do what it says, on three machines.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	page := pages(t)["docs/fleet.md"]
	var blocks []string
	var tables []string
	for _, b := range fenced.FindAllStringSubmatch(page, -1) {
		if b[1] == "sh" {
			blocks = append(blocks, b[2])
		} else {
			tables = append(tables, b[2])
		}
	}
	if len(blocks) != 8 || len(tables) != 2 {
		t.Fatalf("%d blocks of commands and %d tables: %q", len(blocks), len(tables), blocks)
	}
	m := newHosts(t)
	m.startEtcd(blocks[0])
	for _, host := range []string{"a", "b", "c"} {
		fleetOf(t, filepath.Join(m.dir, host, "garden")) // which is stopped in the end
	}
	m.run("a", blocks[1])
	out := m.run("a", "cd garden\n"+blocks[2])
	rows := regexp.MustCompile(`(?m)^([abc]  .*?) +[abc]:7420 .*$`).FindAllStringSubmatch(tables[0], -1)
	if len(rows) != 3 {
		t.Fatalf("the nodes are %q", tables[0])
	}
	for _, row := range rows {
		m.wants("b", "cd garden; coppice node ls", `(?m)^`+strings.Join(strings.Fields(row[1]), " +")+` +127`)
	}
	if !strings.Contains(out, "node c stands by") {
		t.Errorf("%s", out)
	}
	out = m.run("b", "cd garden\n"+blocks[3])
	if !regexp.MustCompile(`garden/pipeline/source +agent +running`).MatchString(out) ||
		!strings.Contains(out, "agent.started garden/pipeline/source#2") {
		t.Errorf("%s", out)
	}

	t.Log(m.run("a", "cd garden; cp coppice.toml kept.toml\n"+blocks[6]))
	crew := regexp.MustCompile(`(?m)^(garden/crew/\S+) +agent +running +\d+ +([abc]) `).FindAllStringSubmatch(tables[1], -1)
	if len(crew) != 3 {
		t.Fatalf("the agents are %q", tables[1])
	}
	for _, row := range crew {
		m.wants(row[2], "cd garden; coppice ps", `(?m)^`+row[1]+` +agent +running +\d+ +[abc] `)
		m.wants("b", "cd garden; coppice node show "+row[2], "garden/crew/crew-")
	}
	m.run("a", "cd garden; coppice stop crew; mv kept.toml coppice.toml; coppice reload")
	m.wants("c", "cd garden; coppice ps | grep -c crew || true", "^0")

	source := `(?m)garden/pipeline/source +agent +running +\d+ +([abc] +)?%d `
	m.run("a", "cd garden; coppice stop worker\n"+blocks[7])      // which fails now and then
	m.wants("c", "cd garden; coppice ps", fmt.Sprintf(source, 2)) // it has gone on
	m.run("b", "cd garden; coppice node drain a")
	m.wants("a", "cd garden; coppice node ls", `(?m)^a +draining +0 `)
	m.wants("a", "cd garden; coppice ps", fmt.Sprintf(source, 3))
	m.run("c", "cd garden; coppice node drain a --undo")
	m.run("a", "cd garden; coppice down")
	for _, host := range []string{"a", "b", "c"} {
		m.wants(host, "cd garden; coppice down", "no daemon is running, and no agents")
	}

	fleetOf(t, filepath.Join(m.dir, "c", "old"))
	m.run("c", "mkdir old; cd old; coppice init; coppice up -d; coppice task add keep-me")
	in := func(block string) string { return "cd old\n" + strings.ReplaceAll(block, "/garden", "/old") }
	out = m.run("c", in(blocks[4]))
	if !strings.Contains(out, "this machine is node c of a new fleet") {
		t.Errorf("%s", out)
	}
	m.wants("c", "cd old; coppice node ls; coppice task ls", `(?s)c +ready, controller .*keep-me`)
	m.run("c", in(blocks[5]))
	m.wants("c", "cd old; coppice status; coppice task ls", `(?s)sqlite.*keep-me`)
}
