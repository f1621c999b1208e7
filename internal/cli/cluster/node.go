package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// nodeFlags are the settings of a node.
type nodeFlags struct {
	file, name, listen, advertise string
	labels                        []string
	capacity                      int
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	command.ConfigFlag(cmd, &f.file)
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "the `NAME` of the node (default: that of the host, up to the first dot)")
	flags.StringVar(&f.listen, "listen", "", "the `ADDRESS` to listen on for other nodes (default: "+
		member.DefaultListen+")")
	flags.StringVar(&f.advertise, "advertise", "", "the `HOST:PORT` at which other machines reach this one "+
		"(default: the name of the host)")
	flags.StringArrayVar(&f.labels, "label", nil, "a label `NAME=VALUE`, for the choice of nodes; can be repeated. "+
		"Those given replace all; an empty one removes them")
	flags.IntVar(&f.capacity, "capacity", 0, "the `NUMBER` of agents that the node takes; 0 is no limit")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// change returns the settings that are given.
func (f *nodeFlags) change(cmd *cobra.Command) (c member.Change, err error) {
	c = member.Change{Name: f.name, Listen: f.listen, Advertise: f.advertise}
	c.Hostname, _ = os.Hostname() // without one, the name must be given
	if cmd.Flags().Changed("capacity") {
		c.Capacity = &f.capacity
	}
	if len(f.labels) > 0 {
		c.Labels, err = member.ParseLabels(f.labels)
	}
	return c, err
}

// coded adds the exit code.
func coded(err error) error {
	if _, ok := errors.AsType[*member.InvalidError](err); ok {
		return command.UsageError(err)
	}
	return err
}

// nodeOf is this machine in a project that is about to become a node, or is one.
type nodeOf struct {
	project project.Project
	member  *member.Member // nil if it is none
	runs    bool           // its daemon
	invalid error          // why the file of the project cannot be used, unless there is a member
}

// change calls do while no daemon of the project starts. A daemon may run only if the machine is a node: it would have
// another store otherwise.
func change(file, what string, do func(context.Context, nodeOf) error) (err error) {
	path, p, err := find(file, what)
	if err != nil {
		return err
	}
	n := nodeOf{project: p}
	if n.member, err = loadMember(p); err != nil {
		return err
	}
	if n.member == nil {
		tree, _, err := load.Tree(path)
		switch _, invalid := errors.AsType[config.Errors](err); {
		case err == nil:
			n.project = p.WithPersistence(tree.Persistence)
		case errors.Is(err, fs.ErrNotExist):
			return command.Exit(command.ExitConfig, err)
		case invalid:
			n.invalid = command.Exit(command.ExitConfig, err)
		default:
			n.invalid = err
		}
	}
	lock, err := p.LockOffline()
	_, n.runs = errors.AsType[*project.LockedError](err)
	switch {
	case n.runs && n.member == nil:
		return fmt.Errorf("%w; this machine is no node yet, so stop the daemon first, with: coppice down, or coppice "+
			"down --keep-agents", err)
	case err != nil && !n.runs:
		return err
	case err == nil:
		defer func() { err = errors.Join(err, lock.Release()) }()
	}
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	return do(ctx, n)
}

// locate returns the location of the store: that of the flag, or else that of the member.
func (n nodeOf) locate(url string) (etcd.Location, error) {
	switch {
	case url == "" && n.member != nil:
		return n.member.Location(), nil
	case url == "":
		return etcd.Location{}, command.Usagef("--store is missing: the URL of the store of the fleet, such as " +
			"--store etcd://10.0.0.1,10.0.0.2,10.0.0.3/PREFIX")
	}
	l, err := etcd.ParseLocation(url)
	if err != nil {
		return l, command.Usagef("--store %q: %w", etcd.WithoutPassword(url), err)
	}
	dir, err := os.Getwd()
	return l.In(dir), err
}

// checkState refuses an empty store in place of a database that has the state of the project. A copy into it is
// possible only before it has a fleet.
func (n nodeOf) checkState(ctx context.Context, db *etcd.Store, l etcd.Location) error {
	file := n.database()
	if n.member != nil || file == "" {
		return nil
	}
	page, _, err := db.Scan(ctx, "", "", 1)
	if err != nil || len(page) > 0 {
		return err
	}
	return fmt.Errorf("the state of this project is in %s, and the store is empty; copy the state first, with: "+
		"coppice store copy sqlite '%v'; or start without it, with --fresh", plaintext.Line(file), l)
}

// database returns the name of the database that has the state of a project that was no node, or "".
func (n nodeOf) database() string {
	if file := n.project.Database(); n.member == nil && file != "" && sqlite.Exists(file) {
		return file
	}
	return ""
}

// lines tells what the machine is, and what to do next.
func (n nodeOf) lines(first string, r member.Result) []string {
	settings, l := r.Settings(), r.Location()
	l.CA, l.Cert, l.Key, l.PasswordFile = "", "", "", ""
	lines := []string{
		first, "",
		"  store      " + l.String(),
		"  listens    " + settings.Listen,
		"  address    " + settings.Advertise,
	}
	if len(settings.Labels) > 0 {
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(settings.Labels)) {
			labels = append(labels, name+"="+settings.Labels[name])
		}
		lines = append(lines, "  labels     "+strings.Join(labels, ", "))
	}
	if settings.Capacity > 0 {
		lines = append(lines, "  capacity   "+plaintext.Plural(settings.Capacity, "agent"))
	}
	lines = append(lines, "")
	if member.IsLocal(settings.Advertise) {
		lines = append(lines, "note: only this machine reaches "+settings.Advertise+
			"; for others say --advertise HOST:PORT")
	}
	if slices.ContainsFunc(l.Endpoints, member.IsLocal) {
		lines = append(lines, "note: only this machine reaches the store at "+strings.Join(l.Endpoints, ",")+
			"; for others say --store with addresses that all machines reach")
	}
	if file := n.database(); file != "" {
		lines = append(lines, "note: a node does not use "+plaintext.Line(file)+
			", which has the state of this project so far")
	}
	if n.runs {
		return append(lines, "the daemon that runs uses this from its next start: coppice down --local --keep-agents, "+
			"coppice up -d")
	}
	lines = append(lines, "start the daemon: coppice up -d")
	if r.NewNode {
		lines = append(lines, "let other machines join: coppice cluster token prints TOKEN, and there: "+
			"coppice cluster join TOKEN")
	}
	return lines
}
