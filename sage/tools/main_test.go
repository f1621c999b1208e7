package tools

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; only a failure takes that long.
const patience = time.Minute

// bounded is a context that ends a test which hangs.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

var errStopped = errors.New("the agent is stopped")

// stopped is a context that is over.
func stopped() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStopped)
	return ctx
}

// refused checks that there is an error and that it says so.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3000 {
		t.Errorf("%s: %v\nwant %s", what, err, want)
	}
}

func TestEnviron(t *testing.T) {
	with := func(vars ...string) (Settings, error) {
		return Settings{HTTPTimeout: time.Minute, Root: "files", Database: "a.db"}.Environ(func(name string) (string, bool) {
			for _, v := range vars {
				if k, v, _ := strings.Cut(v, "="); k == name {
					return v, true
				}
			}
			return "", false
		})
	}
	for _, c := range []struct {
		vars []string
		want Settings
	}{
		{nil, Settings{HTTPTimeout: time.Minute, Root: "files", Database: "a.db"}},
		{[]string{"SAGE_HTTP_TIMEOUT= ", "SAGE_FS_ROOT=", "SAGE_DATABASE_URL="}, Settings{HTTPTimeout: time.Minute, Root: "files", Database: "a.db"}},
		{[]string{"SAGE_HTTP_TIMEOUT=5", "SAGE_FS_ROOT=/srv", "SAGE_DATABASE_URL=sqlite::memory:"}, Settings{HTTPTimeout: 5 * time.Second, Root: "/srv", Database: "sqlite::memory:"}},
		{[]string{"SAGE_HTTP_TIMEOUT=0.25"}, Settings{HTTPTimeout: 250 * time.Millisecond, Root: "files", Database: "a.db"}},
		{[]string{"SAGE_HTTP_TIMEOUT=2m"}, Settings{HTTPTimeout: 2 * time.Minute, Root: "files", Database: "a.db"}},
	} {
		if got, err := with(c.vars...); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.vars, got, err)
		}
	}
	for _, v := range []string{"SAGE_HTTP_TIMEOUT=0", "SAGE_HTTP_TIMEOUT=-1", "SAGE_HTTP_TIMEOUT=3601", "SAGE_HTTP_TIMEOUT=1e30", "SAGE_HTTP_TIMEOUT=NaN", "SAGE_HTTP_TIMEOUT=soon", "SAGE_HTTP_TIMEOUT=2h", "SAGE_DATABASE_URL=postgres://u:p@h/d"} {
		name, _, _ := strings.Cut(v, "=")
		_, err := with(v)
		refused(t, v, err, name)
	}
}
