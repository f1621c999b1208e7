package daemon

import (
	"reflect"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// A launch of the controller names directories of its machine, and its socket.
func TestLocalize(t *testing.T) {
	m := &machine{
		project: project.Project{Dir: "/here/p"}, socket: "/here/p/socket", exports: &exports{listen: "127.0.0.1:2"},
	}
	exporting := func(address string) []string {
		return otlp.Environ(agentcli.Claude, []string{proc.EnvToken + "=x", "X=/there/p"}, address)
	}
	for _, c := range []struct{ got, want runtime.Launch }{
		{
			runtime.Launch{
				Home: "/there/p", Dir: "/there/p/sub", Stdin: "/there/p/in", Paths: &landlock.Paths{
					ReadWrite: []string{"/there/p/w", "-/there/p/may", "/tmp"}, ReadOnly: []string{"/there/p/w/.git"},
					OwnSignals: true,
				},
				Env: []string{"COPPICE_SOCKET=/there/p/socket", "X=/there/p"},
			},
			runtime.Launch{
				Home: "/there/p", Dir: "/here/p/sub", Stdin: "/here/p/in", Paths: &landlock.Paths{
					ReadWrite: []string{"/here/p/w", "-/here/p/may", "/tmp"}, ReadOnly: []string{"/here/p/w/.git"},
					OwnSignals: true,
				},
				Env: []string{"COPPICE_SOCKET=/here/p/socket", "X=/there/p"},
			},
		},
		{
			runtime.Launch{Home: "/there/p", Dir: "/there/p", Paths: &landlock.Paths{ReadWrite: []string{}}},
			runtime.Launch{Home: "/there/p", Dir: "/here/p", Paths: &landlock.Paths{ReadWrite: []string{}}},
		},
		{
			runtime.Launch{Dir: "/there/p", Env: exporting("127.0.0.1:1")},
			runtime.Launch{Dir: "/there/p", Env: exporting("127.0.0.1:2")},
		},
		{
			runtime.Launch{Home: "/there/p", Dir: "/there/pq"},
			runtime.Launch{Home: "/there/p", Dir: "/there/pq"},
		},
		{runtime.Launch{Dir: "/there/p"}, runtime.Launch{Dir: "/there/p"}},
		{
			runtime.Launch{Home: "/there/p", Dir: "/there/p/a", Env: append([]string{"X=1"}, runner.Environ(&aidefile.Agent{
				Path: "/there/p/a/Aidefile", Settings: aidefile.Settings{Vault: "/there/p/vault"},
			})...)},
			runtime.Launch{Home: "/there/p", Dir: "/here/p/a", Env: append([]string{"X=1"}, runner.Environ(&aidefile.Agent{
				Path: "/here/p/a/Aidefile", Settings: aidefile.Settings{Vault: "/here/p/vault"},
			})...)},
		},
		{
			runtime.Launch{Home: "/there/p", Dir: "/there/p/a", Env: runner.Environ(&aidefile.Agent{
				Path: "/there/p/../q/Aidefile", Settings: aidefile.Settings{Vault: "/etc/vault"},
			})},
			runtime.Launch{Home: "/there/p", Dir: "/here/p/a", Env: runner.Environ(&aidefile.Agent{
				Path: "/there/p/../q/Aidefile", Settings: aidefile.Settings{Vault: "/etc/vault"},
			})},
		},
	} {
		if err := m.localize(&c.got); err != nil || !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("got %+v, want %+v", c.got, c.want)
		}
	}
}
