// Package doctor checks everything that the daemon of a project depends on.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/supervisor"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, warning, problem, fixed
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // the remedy
}

// Levels of a Finding.
const (
	LevelOK      = "ok"
	LevelWarning = "warning"
	LevelProblem = "problem"
	LevelFixed   = "fixed"
)

// minFree is the free space in bytes below which the state is not safe.
const minFree = 64 << 20

// Check checks everything that the daemon of a project depends on. With fix it repairs what it can,
// except for things that a running daemon uses.
func Check(ctx context.Context, file string, fix bool) ([]Finding, error) {
	p, err := project.Open(file)
	if err != nil {
		return nil, err
	}
	d := &doctor{project: p, fix: fix}
	d.config(file)
	d.daemon(ctx)
	d.store(ctx)
	d.slots(ctx)
	d.disk()
	d.groups()
	d.landlock(landlock.ABI())
	d.programs(ctx)
	d.models(ctx)
	d.outgoing(ctx)
	return d.found, nil
}

type doctor struct {
	project project.Project
	fix     bool
	running bool                   // a daemon runs
	holder  int                    // its process id
	socket  string                 // of a daemon
	tree    *spec.Tree             // of the file; nil if that cannot be read
	agents  map[string]*spec.Agent // of the file, by path; nil if the file cannot be read
	tmux    bool                   // some agents run in tmux
	found   []Finding
}

func (d *doctor) note(check, level, fix, format string, args ...any) {
	d.found = append(d.found, Finding{check, level, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) config(file string) {
	tree, _, err := load.Tree(file)
	if err != nil {
		d.note("file", LevelProblem, "coppice validate", "%v", err)
		return
	}
	d.tree, d.agents = tree, map[string]*spec.Agent{}
	for path, c := range tree.All() {
		if a := c.Declared(); a != nil {
			d.agents[path] = a
		}
	}
	d.tmux = len(project.InTmux(tree)) > 0
	d.project = d.project.WithPersistence(tree.Persistence)
	d.note("file", LevelOK, "", "%s, %d agents", file, len(d.agents))
}

// daemon checks that the lock and the socket agree.
func (d *doctor) daemon(ctx context.Context) {
	holder, locked := d.project.Locked()
	d.running, d.holder = locked, holder.PID
	socket, err := endpoint.Path(d.project.Dir)
	if err != nil {
		d.note("socket", LevelProblem, "", "%v", err)
		return
	}
	d.socket = socket
	client := api.Dial(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	status, err := status.Get.Call(ctx, client, api.None{})
	switch {
	case err == nil && locked:
		d.note("daemon", LevelOK, "", "process %d answers", status.Controller.PID)
	case err == nil:
		d.note("daemon", LevelProblem, "", "process %d answers, but does not hold the lock", status.Controller.PID)
	case locked && errors.Is(err, api.ErrNoController):
		d.note("daemon", LevelProblem, "", "process %d answers, and is a node of a fleet: %v", holder.PID, err)
	case locked:
		d.note("daemon", LevelProblem,
			fmt.Sprintf("if it hangs: kill -9 %d; agents keep running, and the next daemon adopts them", holder.PID),
			"process %d holds the lock, but does not answer: %v", holder.PID, err)
	case errors.Is(err, api.ErrUnauthorized):
		d.note("daemon", LevelProblem, "", "%v", err)
	default:
		d.note("daemon", LevelOK, "coppice up -d", "not running")
	}
}

func (d *doctor) store(ctx context.Context) {
	if d.project.InFleet() {
		d.fleet(ctx)
		return
	}
	path := d.project.Database()
	if path == "" {
		d.note("store", LevelOK, "", "in memory, as [persistence] says: it ends with the daemon")
		return
	}
	if _, err := os.Lstat(d.project.State); err == nil {
		if err := d.project.Check(); err != nil {
			d.note("state", LevelProblem, "", "%v", err)
			return
		}
	}
	switch {
	case d.running:
		d.note("store", LevelOK, "", "in use by the daemon; see coppice status")
		return
	case !sqlite.Exists(path):
		d.note("store", LevelOK, "", "does not exist yet")
		return
	}
	db, err := sqlite.Open(ctx, path)
	if err == nil {
		err = errors.Join(db.Verify(ctx), db.Close())
	}
	if err == nil {
		d.note("store", LevelOK, "", "%s is sound", path)
		return
	}
	if _, damaged := errors.AsType[*sqlite.FileError](err); !damaged || !d.fix {
		d.note("store", LevelProblem, "coppice doctor --fix", "%v", err)
		return
	}
	report, err := sqlite.Repair(ctx, path)
	if err != nil {
		d.note("store", LevelProblem, "", "cannot be repaired: %v", err)
		return
	}
	aside := ""
	if _, err := os.Lstat(report.Aside); err == nil {
		aside = ", the old file is " + report.Aside
	}
	d.note("store", LevelFixed, "", "%s: %d records saved%s", report.Problem, report.Salvaged, aside)
}

// slots looks for orphans, for agents in the wrong runtime, and for those in an unknown state.
func (d *doctor) slots(ctx context.Context) {
	alive, sure := 0, true
	look := func(rt runtime.Runtime, err error) {
		var all []runtime.Observation
		if err == nil {
			defer rt.Close()
			all, err = certain(ctx, rt)
		}
		if err != nil {
			d.note("agents", LevelProblem, "", "%v", err)
			sure = false
		}
		for _, o := range all {
			a := d.declared(o.Path)
			switch {
			case o.Life == runtime.Unknown:
				d.note("agents", LevelProblem, "", "%s: unknown whether it runs: %s", o.Path, o.Detail)
			case o.Life == runtime.Alive && d.agents != nil && a == nil:
				d.orphan(ctx, rt, o)
			case o.Life == runtime.Alive && a != nil && a.Runtime.String() != rt.Kind():
				d.note("agents", LevelWarning, "coppice up moves it",
					"%s runs in runtime %s, process %d, but the file says %v", o.Path, rt.Kind(), o.PID, a.Runtime)
				alive++
			case o.Life == runtime.Alive:
				alive++
			}
		}
	}
	if isDir(d.project.Slots()) {
		look(shim.Open(shim.Options{Dir: d.project.Slots()}))
	}
	if isDir(d.project.Tmux()) {
		look(tmux.Open(tmux.Options{Dir: d.project.Tmux()}))
	}
	switch {
	case alive > 0 && !d.running:
		d.note("agents", LevelWarning, "coppice up -d takes them over, coppice down stops them",
			"%d live without a daemon", alive)
	case alive > 0 || sure:
		d.note("agents", LevelOK, "", "%d live", alive)
	}
}

// declared returns the agent of a path in the file. For an instance of a pool that is the pool.
func (d *doctor) declared(path string) *spec.Agent {
	above := path[:max(0, strings.LastIndexByte(path, '/'))]
	if pool := d.agents[above]; pool != nil && pool.Pool != nil {
		return pool
	}
	return d.agents[path]
}

// certainTime bounds the wait for an unknown state to become known: a shim that is about to exit
// still exists, but does not answer.
const certainTime = 2 * time.Second

// certain lists the slots of a runtime. It retries for up to certainTime while the state of a slot is
// unknown.
func certain(ctx context.Context, rt runtime.Runtime) ([]runtime.Observation, error) {
	late := time.Now().Add(certainTime)
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		all, err := rt.List(ctx)
		unknown := slices.ContainsFunc(all, func(o runtime.Observation) bool { return o.Life == runtime.Unknown })
		if err != nil || !unknown || time.Now().After(late) {
			return all, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return all, nil
		}
	}
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// orphan reports an agent that runs but is not in the file, and stops it if it may.
func (d *doctor) orphan(ctx context.Context, rt runtime.Runtime, o runtime.Observation) {
	if !d.fix || d.running {
		d.note("agents", LevelProblem, "coppice up, or coppice doctor --fix, stops it",
			"%s runs, process %d, but is not in the file", o.Path, o.PID)
		return
	}
	if err := agent.Evict(ctx, rt, o.Path, supervisor.DefaultShutdown); err != nil {
		d.note("agents", LevelProblem, "", "stopping %s: %v", o.Path, err)
		return
	}
	d.note("agents", LevelFixed, "", "%s, which is not in the file, was stopped", o.Path)
}

func (d *doctor) disk() {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.project.Dir, &st); err != nil {
		d.note("disk", LevelProblem, "", "%v", err)
		return
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < minFree {
		d.note("disk", LevelProblem, "free some space; agents keep running, but nothing can be saved",
			"%d MiB free in %s", free>>20, d.project.Dir)
		return
	}
	d.note("disk", LevelOK, "", "%d MiB free", free>>20)
}

// groups checks the control groups that the daemon has for its agents, or that a daemon would have if
// it were started now.
func (d *doctor) groups() {
	pid := 0
	if d.running {
		pid = d.holder
	}
	const fix = "coppice install writes a systemd unit that has all of it (systemd 254)"
	tree, err := cgroup.Find(pid)
	if err == nil {
		tree.Predict() // a daemon enables controllers with its first agent
	}
	switch {
	case err != nil:
		d.note("groups", LevelWarning, fix, "%v: other limits than open_files hold for less than they could", err)
	case tree.Missing() != "":
		d.note("groups", LevelWarning, fix, "agents have control groups, but not for all limits: %s", tree.Missing())
	default:
		d.note("groups", LevelOK, "", "control groups in %s", tree.Dir())
	}
	var cpu []string
	for path, a := range d.agents {
		if a.Limits.CPU > 0 && (err != nil || a.Runtime == spec.Tmux || !tree.CPU()) {
			cpu = append(cpu, path)
		}
	}
	if len(cpu) > 0 {
		slices.Sort(cpu)
		d.note("limits", LevelWarning, "", "cpu of %s is not enforced, since that needs control groups",
			strings.Join(cpu, ", "))
	}
}

// landlock says what the kernel can enforce of read_write_paths.
func (d *doctor) landlock(abi int, err error) {
	switch {
	case err == nil && abi < landlock.MinABI:
		err = fmt.Errorf("version %d, expected at least %d (Linux 6.2)", abi, landlock.MinABI)
		fallthrough
	case err != nil:
		d.note("landlock", LevelWarning, "a newer kernel, or the boot parameter lsm= with landlock",
			"%v: agents with read_write_paths are not started", err)
		return
	}
	detail := fmt.Sprintf("version %d: read_write_paths holds for files", abi)
	if abi >= landlock.DevicesABI {
		detail += ", devices"
	}
	if abi >= landlock.ScopesABI {
		detail += ", abstract sockets and signals"
	}
	d.note("landlock", LevelOK, "", "%s", detail)
}

// programs checks programs and settings that only some projects need.
func (d *doctor) programs(ctx context.Context) {
	switch version, err := tmux.Version(ctx); {
	case err == nil:
		d.note("tmux", LevelOK, "", "version %s", version)
	case d.tmux:
		d.note("tmux", LevelProblem, "", "%v; agents of the file run in it", err)
	default:
		d.note("tmux", LevelWarning, "", "%v; no agent of the file needs it", err)
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		d.note("terminal", LevelWarning, "", "TERM is %q: no live view", term)
	} else {
		d.note("terminal", LevelOK, "", "%s", term)
	}
}
