package shim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// memory returns a field of the memory of a process, such as Pss, in kB.
func memory(t testing.TB, pid int, field string) (kB int) {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kB, err = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kB
		}
	}
	t.Skipf("no %s in smaps_rollup", field)
	return 0
}

// executable builds the program as it is shipped, since the test binary is larger.
func executable(t testing.TB) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "coppice")
	cmd := exec.Command("go", "build", "-o", exe, "github.com/coppice-dev/coppice/cmd/coppice")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build coppice: %v\n%s", err, out)
	}
	return exe
}

// TestMemoryOfShims measures the memory of an idle shim with a running agent. SHIM_TEST_COUNT
// sets the number of shims; the more there are, the smaller the share of each in the memory that
// they share.
func TestMemoryOfShims(t *testing.T) {
	n := 20
	if v, err := strconv.Atoi(os.Getenv("SHIM_TEST_COUNT")); err == nil && v > 0 {
		n = v
	} else if testing.Short() {
		t.Skip("builds the program")
	}
	dir := slotsDir(t)
	r, err := Open(Options{Dir: dir, Executable: executable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ahead := make(chan struct{}, 4)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			l := sh(fmt.Sprintf("app/a%d", i), 1, "exec sleep 10000")
			if _, err := r.Start(ctxOf(t), l); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	started := time.Since(begin)
	time.Sleep(3 * time.Second) // they release memory after a second, which cannot be observed
	var all []int
	sum := 0
	for _, s := range r.sessions(t) {
		kB := memory(t, s.state.Shim.PID, "Pss")
		all = append(all, kB)
		sum += kB
	}
	slices.Sort(all)
	t.Logf("%d shims, started in %v: PSS mean %d kB, median %d kB, max %d kB",
		n, started, sum/len(all), all[len(all)/2], all[len(all)-1])
	if limit := 4 << 10; sum/len(all) > limit && n >= 500 {
		t.Errorf("a shim has %d kB, at most %d are wanted", sum/len(all), limit)
	}
	r.Close()
	r2 := open(t, dir)
	begin = time.Now()
	list, err := r2.List(ctxOf(t))
	if err != nil || len(list) != n {
		t.Errorf("list: %d, %v", len(list), err)
	}
	listed := time.Since(begin)
	begin = time.Now()
	for _, o := range list {
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			if _, err := r2.Adopt(ctxOf(t), o.Path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("listed in %v, adopted in %v", listed, time.Since(begin))
}

// TestMemoryOfSharedShim bounds the memory that a shim does not share with others, with as many
// agents as it gets by default. A shim that collects garbage while it starts them has more.
func TestMemoryOfSharedShim(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	const most = 6200 // kB; it has 5600 to 6000, as the garbage collector runs
	r, err := Open(Options{Dir: slotsDir(t), Executable: executable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range spec.DefaultPerShim { // not at once, which would take two shims
		if _, err := r.Start(ctxOf(t), sh(fmt.Sprintf("app/a%d", i), 1, "exec sleep 10000")); err != nil {
			t.Error(err)
		}
	}
	shims := make(map[int]bool)
	for _, s := range r.sessions(t) {
		shims[s.state.Shim.PID] = true
	}
	if len(shims) != 1 {
		t.Fatalf("%d shims, want one", len(shims))
	}
	for pid := range shims {
		kB := memory(t, pid, "Anonymous")
		t.Logf("%d kB", kB)
		if kB > most {
			t.Errorf("a shim with %d agents has %d kB, more than %d", spec.DefaultPerShim, kB, most)
		}
	}
}

// sessions adopts all slots.
func (r *Runtime) sessions(t testing.TB) (all []*session) {
	t.Helper()
	list, err := r.List(ctxOf(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		s, err := r.Adopt(ctxOf(t), o.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.(*session))
	}
	return all
}

// BenchmarkRestart measures the time from SIGKILL of an agent to the exec of its successor,
// without and with a shim.
func BenchmarkRestart(b *testing.B) {
	argv := []string{"/bin/sleep", "1000"}
	b.Run("bare", func(b *testing.B) {
		var took []time.Duration
		start := func() *exec.Cmd {
			cmd := exec.Command(argv[0], argv[1:]...)
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			return cmd
		}
		cmd := start()
		for b.Loop() {
			begin := time.Now()
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
			cmd = start()
			took = append(took, time.Since(begin))
		}
		cmd.Process.Kill()
		cmd.Wait()
		report(b, took)
	})
	b.Run("groups", func(b *testing.B) { benchmarkRestart(b, argv, false) })
	b.Run("no groups", func(b *testing.B) { benchmarkRestart(b, argv, true) })
}

func benchmarkRestart(b *testing.B, argv []string, withoutGroups bool) {
	dir := slotsDir(b)
	r, err := Open(Options{Dir: dir, Executable: executable(b), WithoutGroups: withoutGroups})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var took []time.Duration
	n := uint64(0)
	start := func() *session {
		n++
		l := sh("app/a", n, "")
		l.Argv = argv
		s, err := r.Start(b.Context(), l)
		if err != nil {
			b.Fatal(err)
		}
		return s.(*session)
	}
	s := start()
	for b.Loop() {
		pid := s.Observe().PID
		begin := time.Now()
		syscall.Kill(pid, syscall.SIGKILL)
		<-s.Done()
		s = start()
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
