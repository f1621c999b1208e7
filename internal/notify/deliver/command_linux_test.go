package deliver

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/spec"
)

// commands returns a Deliverer that runs commands, with a directory.
func commands(t *testing.T) (d *Deliverer, dir string) {
	t.Helper()
	dir = t.TempDir()
	r := gate.NewRunner(filepath.Join(dir, "jobs"), nil)
	r.Sweep(t.Context())
	return New(Options{Run: r.Wait, Environ: func(more map[string]string) []string {
		env := []string{"PATH=" + dir + ":/usr/bin:/bin"}
		for name, value := range more {
			env = append(env, name+"="+value)
		}
		return env
	}}), dir
}

func TestCommand(t *testing.T) {
	d, dir := commands(t)
	n := &spec.Notify{Via: spec.Command, Dir: dir, Command: []string{"/bin/sh", "-c", "cat >new && mv new got"}}
	m := message()
	if err := d.Send(t.Context(), n, m); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	var got notify.Message
	if err := json.Unmarshal(data, &got); err != nil || !strings.HasSuffix(string(data), "}\n") {
		t.Errorf("%v: %s", err, data)
	}
	if diff := cmp.Diff(*m, got, cmpopts.IgnoreUnexported(notify.Message{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for script, want := range map[string]string{
		"echo first; echo why; exit 3":       "/bin/sh: exit code 3: why",
		"exec sleep 4328":                    "/bin/sh: timed out after 100ms",
		"kill -9 $$":                         "/bin/sh: ",
		"head -c 30000000 /dev/zero; exit 4": "/bin/sh: exit code 4",
	} {
		n.Command[2], n.Timeout = script, time.Minute
		if strings.Contains(want, "timed out") {
			n.Timeout = 100 * time.Millisecond
		}
		err := d.Send(t.Context(), n, m)
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%s: %.500v, want %s", script, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Send(ctx, n, m); err == nil {
		t.Error("a command has run for nobody")
	}
	if err := New(Options{}).Send(t.Context(), n, m); err == nil {
		t.Error("a command has run without a runner")
	}
}

// The texts of a message are arguments of the command that shows it, and markup in them is not.
func TestDesktop(t *testing.T) {
	d, dir := commands(t)
	exectest.Write(t, filepath.Join(dir, "notify-send"), `#!/bin/sh
for a in "$@"; do echo "$a"; done >`+dir+`/args
echo "$DBUS_SESSION_BUS_ADDRESS" >>`+dir+`/args
`)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")
	m := message()
	m.Urgent = true
	if err := d.Send(t.Context(), &spec.Notify{Via: spec.Desktop}, m); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "args"))
	const want = `--app-name=coppice
--urgency=critical
--
shop: t/a asks: <!channel> & *now*?
- t/a asks: &lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; *now*?
  coppice answer q-1
unix:path=/run/bus
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	argv := desktop("darwin", m)
	if n := len(argv); argv[0] != "osascript" || argv[n-1] != m.Text || argv[n-2] != m.Title || argv[n-3] != "--" {
		t.Errorf("%q", argv)
	}
}
