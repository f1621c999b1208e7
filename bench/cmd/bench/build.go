package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// programs are the paths of what was built; empty where that was not possible.
type programs struct {
	gobench     string
	beam        string // directory of the compiled Erlang modules
	execfloor   string
	agentkill   string
	acted       string
	fleetcost   string
	followcost  string
	lookcost    string
	beliefrate  string
	outputrate  string
	cronrate    string
	workrate    string
	goqite      string // its schema
	storecost   string
	etcd        string // its server
	firstact    string
	coppice     string
	compose     string // process-compose
	supervisord string
	notes       []string // what is left out, and why
}

func build(ctx context.Context, dir string) (programs, error) {
	var p programs
	if _, err := os.Stat(filepath.Join("otp", "otpbench.erl")); err != nil {
		return p, fmt.Errorf("run this in the bench directory: %w", err)
	}
	var err error
	if p.gobench, err = goBuild(ctx, dir, "gobench", ".", "./cmd/gobench"); err != nil {
		return p, err
	}
	if p.cronrate, err = goBuild(ctx, dir, "cronrate", ".", "./cmd/cronrate"); err != nil {
		return p, err
	}
	if p.beam, err = erlBuild(ctx, dir); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("Erlang/OTP is left out: %v (Debian: apt-get install erlang-base)", err))
	}
	if runtime.GOOS != "linux" {
		p.notes = append(p.notes, "exec, exit, acted, fleet, look, follow, output, belief, work and store are left "+
			"out: they are measured on Linux only")
		return p, nil
	}
	if p.execfloor, err = goBuild(ctx, dir, "execfloor", ".", "./cmd/execfloor"); err != nil {
		return p, err
	}
	if p.agentkill, err = goBuild(ctx, dir, "agentkill", ".", "./cmd/agentkill"); err != nil {
		return p, err
	}
	if p.acted, err = goBuild(ctx, dir, "acted", ".", "./cmd/acted"); err != nil {
		return p, err
	}
	if p.fleetcost, err = goBuild(ctx, dir, "fleetcost", ".", "./cmd/fleetcost"); err != nil {
		return p, err
	}
	if p.followcost, err = goBuild(ctx, dir, "followcost", ".", "./cmd/followcost"); err != nil {
		return p, err
	}
	if p.lookcost, err = goBuild(ctx, dir, "lookcost", ".", "./cmd/lookcost"); err != nil {
		return p, err
	}
	if p.beliefrate, err = goBuild(ctx, dir, "beliefrate", ".", "./cmd/beliefrate"); err != nil {
		return p, err
	}
	if p.outputrate, err = goBuild(ctx, dir, "outputrate", ".", "./cmd/outputrate"); err != nil {
		return p, err
	}
	if p.workrate, err = goBuild(ctx, dir, "workrate", ".", "./cmd/workrate"); err != nil {
		return p, err
	}
	if out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"maragu.dev/goqite").Output(); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("goqite is left out: %v", err))
	} else {
		p.goqite = filepath.Join(strings.TrimSpace(string(out)), "schema_sqlite.sql")
	}
	if p.storecost, err = goBuild(ctx, dir, "storecost", ".", "./cmd/storecost"); err != nil {
		return p, err
	}
	if server := filepath.Join("..", ".cache", "etcd", "etcd"); !isFile(server) {
		p.notes = append(p.notes, fmt.Sprintf("etcd is left out: there is no %s (make deps)", server))
	} else {
		p.etcd = server
	}
	var entry []string
	if runtime.GOARCH == "amd64" {
		entry = []string{"-ldflags=-E main.entry"}
	} else {
		p.notes = append(p.notes, "exec: the measured program is an ordinary Go program, whose start-up adds "+
			"to floor and result alike")
	}
	if p.firstact, err = goBuild(ctx, dir, "firstact", ".", "./cmd/firstact", entry...); err != nil {
		return p, err
	}
	if p.coppice, err = goBuild(ctx, dir, "coppice", "..", "./cmd/coppice"); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("coppice run and up are not available: %v", err))
	}
	if p.compose, err = goBuild(ctx, dir, "process-compose", "peers",
		"github.com/f1bonacc1/process-compose/src"); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("process-compose is left out: %v", err))
	}
	if p.supervisord, err = exec.LookPath("supervisord"); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("supervisord is left out: %v (Debian: apt-get install supervisor)", err))
	}
	return p, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// goBuild builds pkg of the module in src to dir/name.
func goBuild(ctx context.Context, dir, name, src, pkg string, flags ...string) (string, error) {
	path := filepath.Join(dir, name)
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

func erlBuild(ctx context.Context, dir string) (string, error) {
	if _, err := exec.LookPath("erl"); err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join("otp", "*.erl"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "erlc", append([]string{"-o", dir}, sources...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("erlc: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return dir, nil
}
