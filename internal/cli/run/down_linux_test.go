package run

import (
	"bufio"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/token"
)

// A service manager may have started another daemon before the last one could report. That one is not waited for.
func TestReportOfAnotherDaemon(t *testing.T) {
	asked := make(chan struct{})
	d := apitest.Serve(t, func(s *api.Server) {
		shutdown.GetReport.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) (shutdown.Report, error) {
			close(asked)
			<-ctx.Done()
			return shutdown.Report{}, context.Cause(ctx)
		})
		status.Get.Handle(s, func(context.Context, token.Caller, api.None) (st status.Status, err error) {
			st.Controller.PID, st.Summary, st.Attention = 2, map[string]int{}, []status.Attention{}
			return st, nil
		})
	})
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := d.People()
	report := farewell(ctx, c)
	<-asked
	if err := untilDown(ctx, c, ended.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if all := lastWords(report); len(all.Overdue) > 0 {
		t.Errorf("%+v", all)
	}
	cancel()
	<-report
}

// A daemon that stops its agents is not asked for its status, which would cost more than the stop.
func TestStoppingDaemonIsNotAsked(t *testing.T) {
	t.Parallel()
	daemon := exec.Command("cat")
	in, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	down := make(chan error)
	go func() { down <- untilDown(t.Context(), api.Dial(socket), daemon.Process.Pid) }()
	for range 3 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if request, _ := bufio.NewReader(conn).ReadString('\n'); request != "" {
			t.Errorf("it is asked: %s", request)
		}
		conn.Close()
	}
	l.Close()
	in.Close()
	daemon.Wait()
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A zombie counts as ended.
func TestExitCheckOfZombie(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	gone := exitCheck(cmd.Process.Pid)
	if gone() {
		t.Error("it runs, and is taken for gone")
	}
	in.Close()
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !gone() {
		t.Error("it has ended, and is waited for")
	}
}
