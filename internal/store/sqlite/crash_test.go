package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
)

// crashWriter makes the test binary the writer that is to be killed: it writes
// to the file named by the variable for as long as it lives.
const crashWriter = "COPPICE_TEST_STORE_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashWriter); path != "" {
		if err := writeForever(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(crashImporter); path != "" {
		if err := importLoudly(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// writeForever writes with many goroutines and prints each key after its write
// was acknowledged. Each write is a put, an append and a change of the
// writer's own counter, under a condition.
func writeForever(path string, out io.Writer) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for w := range 64 {
		wg.Go(func() {
			counter := fmt.Sprintf("counter/%02d", w)
			n, rev := 0, store.Rev(0)
			if records, _, err := s.Snapshot(context.Background(), counter); err == nil && len(records) == 1 {
				fmt.Sscan(string(records[0].Value), &n)
				rev = records[0].Rev
			}
			for {
				n++
				key := fmt.Sprintf("%02d.%06d", w, n)
				var err error
				rev, err = s.Apply(context.Background(), store.Fence{}, []store.Cond{{Key: counter, Rev: rev}}, []store.Op{
					put("put/"+key, strings.Repeat(key, 20)), add("log", key), put(counter, fmt.Sprint(n)),
				})
				if err != nil {
					errs <- fmt.Errorf("write of %s: %w", key, err)
					return
				}
				mu.Lock()
				_, err = fmt.Fprintln(out, key) // one write, so that a line is there or not
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// startWriter starts a writer on path. The channel gives what it acknowledges and is closed when it ends.
func startWriter(t *testing.T, path string) (*exec.Cmd, <-chan string) {
	return startSelf(t, crashWriter, path)
}

// startSelf starts the test binary with a variable, and gives the lines that it prints.
func startSelf(t *testing.T, variable, path string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acks := make(chan string, 1024)
	go func() {
		defer close(acks)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			acks <- lines.Text()
		}
	}()
	return cmd, acks
}

// checkSurvived opens the file that writers have been killed on and looks
// whether all that was acknowledged is there, and each write whole.
func checkSurvived(t *testing.T, path string, acked []string) (records int) {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer s.Close()
	all, rev, err := s.Snapshot(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	puts, logged, counters := map[string]bool{}, map[string]int{}, map[string]int{}
	last := uint64(0)
	for _, r := range all {
		if r.Rev > rev {
			t.Errorf("%s has revision %d, the store %d", r.Key, r.Rev, rev)
		}
		switch dir, name, _ := strings.Cut(r.Key, "/"); dir {
		case "put":
			puts[name] = true
			if string(r.Value) != strings.Repeat(name, 20) {
				t.Errorf("%s has another's value", r.Key)
			}
		case "log":
			logged[string(r.Value)]++
			seq, ok := store.ParseSequenceKey("log", r.Key)
			if !ok || seq != last+1 {
				t.Errorf("number %d after %d", seq, last)
			}
			last = seq
		case "counter":
			n := 0
			fmt.Sscan(string(r.Value), &n)
			counters[name] = n
		}
	}
	lost := 0
	for _, key := range acked {
		if !puts[key] || logged[key] != 1 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(acked))
	}
	if len(puts) != len(logged) {
		t.Errorf("%d puts and %d appends: a write is half there", len(puts), len(logged))
	}
	sum := 0
	for _, n := range counters {
		sum += n
	}
	if sum != len(puts) {
		t.Errorf("the counters say %d writes, there are %d", sum, len(puts))
	}
	return len(puts)
}

// TestCrash kills writers with SIGKILL at random moments.
func TestCrash(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "state.db")
	var acked []string
	for round := range rounds {
		cmd, acks := startWriter(t, path)
		// At once, or somewhere in the first writes, or after some time.
		after := []int{0, 1, 1 + random.IntN(200), 1 + random.IntN(5000)}[random.IntN(4)]
		extra := time.Duration(random.IntN(3000)) * time.Microsecond
		n := 0
		timer := time.NewTimer(extra)
		if after > 0 {
			timer.Stop()
		}
		killed := false
		for acks != nil {
			select {
			case key, ok := <-acks:
				if !ok {
					acks = nil
					break
				}
				acked = append(acked, key)
				if n++; n == after {
					timer.Reset(extra)
				}
			case <-timer.C:
				killed = true
				cmd.Process.Kill()
			}
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if !killed || !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("round %d: the writer ended by itself: %v", round, err)
		}
		total := checkSurvived(t, path, acked)
		if t.Failed() {
			t.Fatalf("round %d: %d acknowledged, %d there", round, len(acked), total)
		}
	}
	t.Logf("%d rounds, %d acknowledged writes", rounds, len(acked))
}
