package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/offline"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// Progress is one line, which changes seldom and is removed in the end.
func TestProgressLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := progressLine{out: &out, tty: true}
		want := ""
		for _, c := range []struct {
			after time.Duration
			now   transfer.Progress
			shown string
		}{
			{0, transfer.Progress{}, "copying: 0 records, 0 B"},
			{progressPause / 2, transfer.Progress{Records: 7}, ""},
			{progressPause, transfer.Progress{Records: 120_000, Bytes: 45 << 20}, "copying: 120,000 records, 45 MiB"},
			{0, transfer.Progress{Records: 200_000}, ""},
			{progressPause, transfer.Progress{Stage: transfer.RereadingOriginal, Records: 100_000}, "verifying: 25 %"},
			{progressPause, transfer.Progress{Stage: transfer.RereadingOriginal, Records: 200_000}, "verifying: 50 %"},
			{progressPause, transfer.Progress{Stage: transfer.ReadingCopy, Records: 199_999}, "verifying: 99 %"},
			{progressPause, transfer.Progress{Stage: transfer.ReadingCopy, Records: 200_000}, "verifying: 100 %"},
		} {
			time.Sleep(c.after)
			p.show(c.now)
			if c.shown != "" {
				want += "\r\x1b[K" + c.shown
			}
			if out.String() != want {
				t.Fatalf("%q, want %q", out.String(), want)
			}
		}
		p.clear()
		if out.String() != want+"\r\x1b[K" {
			t.Errorf("in the end: %q", out.String())
		}
		empty := progressLine{out: &out, tty: true, last: time.Time{}}
		empty.show(transfer.Progress{Stage: transfer.ReadingCopy})
		if !strings.HasSuffix(out.String(), "verifying: 0 %") {
			t.Errorf("of nothing: %q", out.String())
		}
		out.Reset()
		none := progressLine{out: &out}
		none.show(transfer.Progress{})
		none.clear()
		if out.Len() > 0 {
			t.Errorf("without a terminal: %q", out.String())
		}
	})
}

func TestCopyLines(t *testing.T) {
	p, err := project.Open(filepath.Join(t.TempDir(), "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := p.Locate("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.Locate("sqlite:/a \"b\"/c.db")
	if err != nil {
		t.Fatal(err)
	}
	remote, err := p.Locate("etcd://a,b/shop")
	if err != nil {
		t.Fatal(err)
	}
	report := transfer.Report{Records: 1234, Bytes: 5 << 20, Damaged: []string{"a/b", "c\x1b"}}
	for want, c := range map[string]offline.Copied{
		"1,234 records (5.0 MiB) copied and verified|from " + own.String() + "|to   sqlite:/a \"b\"/c.db||" +
			"2 records damaged and left out:|  a/b|  c||" +
			"to use the copy, write into coppice.toml:|  [persistence]|  path = \"/a \\\"b\\\"/c.db\"|" +
			"and start the daemon: coppice up -d": {From: own, To: other, Report: report},
		"0 records (0 B) copied and verified|from sqlite:/a \"b\"/c.db|to   " + own.String() + "||" +
			"start the daemon: coppice up -d": {From: other, To: own},
		"0 records (0 B) copied and verified|from " + own.String() + "|to   etcd://a:2379,b:2379/shop||use the copy on " +
			"this machine, as the first node of a fleet: coppice cluster init --store 'etcd://a:2379,b:2379/shop'": {
			From: own, To: remote},
	} {
		if got := strings.Join(copyLines(c), "|"); got != want {
			t.Errorf("lines:\n got %q\nwant %q", got, want)
		}
	}
	report.Damaged = make([]string, transfer.MaxDamaged)
	if got := strings.Join(copyLines(offline.Copied{From: other, To: own, Report: report}), "|"); !strings.Contains(got,
		"100 or more records damaged") {
		t.Errorf("many damaged records: %q", got)
	}
}

func TestCopyError(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{&project.LocationError{Text: "x", Problem: "y"}, command.ExitUsage, `"x" is no store: y`},
		{fmt.Errorf("%w: x", offline.ErrSameStore), command.ExitUsage, "same store"},
		{fmt.Errorf("x: %w", store.ErrNotEmpty), command.ExitFailure, "name a new file or prefix"},
		{errors.New("x"), command.ExitFailure, "x"},
	} {
		err := copyError(t.Context(), c.err)
		if command.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: code %d, want %d", err, command.ExitCode(err), c.code)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(command.Exit(130, nil))
	if err := copyError(ctx, context.Canceled); command.ExitCode(err) != 130 || err.Error() != "" {
		t.Errorf("interrupted: %v, code %d", err, command.ExitCode(err))
	}
}
