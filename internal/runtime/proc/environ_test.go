package proc

import (
	"reflect"
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	parent := []string{
		"PATH=/bin", "HOME=/home/u", "LANG=C.UTF-8", "LC_TIME=de_DE", "TERM=xterm",
		"ANTHROPIC_API_KEY=secret", "NOTIFY_SOCKET=/run/x", "PATHS=no", "COPPICE_AGENT=parent", "broken",
		"COPPICE_FAKE=plan",
	}
	declared := map[string]string{
		"TERM": "dumb", "EMPTY": "", "WITH": "a=b",
		"COPPICE_AGENT": "forged", "COPPICE_TOKEN": "forged", "COPPICE_OTHER": "forged", "COPPICE_FAKE": "forged",
	}
	got := environ(parent, declared, Self{Agent: "app/db", Incarnation: 7, Token: "t7"})
	want := []string{
		"COPPICE_AGENT=app/db", "COPPICE_FAKE=plan", "COPPICE_INCARNATION=7", "COPPICE_TOKEN=t7", "EMPTY=", "HOME=/home/u", "LANG=C.UTF-8",
		"LC_TIME=de_DE", "PATH=/bin", "TERM=dumb", "WITH=a=b",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("environ = %q\nwant      %q", got, want)
	}
	t.Setenv("TZ", "Asia/Tokyo")
	if env := Environ(nil, Self{Agent: "a", Incarnation: 1}); !slices.Contains(env, "TZ=Asia/Tokyo") || !slices.IsSorted(env) {
		t.Errorf("Environ = %q", env)
	}
}

// What was inherited on another machine is that of this one, and what was declared stays.
func TestMove(t *testing.T) {
	t.Setenv("LC_TIME", "ja_JP")
	declared := map[string]string{"TZ": "UTC", "LC_ALL": "C", "OTHER": "x"}
	names := Inherited(declared)
	for name, want := range map[string]bool{
		"PATH": true, "HOME": true, "TERM": true, "LC_TIME": true, "TZ": false, "LC_ALL": false, "OTHER": false,
	} {
		if slices.Contains(names, name) != want {
			t.Errorf("%s is inherited: %v", name, !want)
		}
	}
	there := environ([]string{"PATH=/there", "HOME=/there", "TERM=xterm", "TMPDIR=/there", "LC_TIME=ja_JP", "TZ=Mars"}, declared,
		Self{Agent: "a", Incarnation: 1})
	here := []string{"PATH=/here", "HOME=/here", "LANG=de", "TZ=Here", "LC_ALL=de", "LC_NUMERIC=de", "OTHER=y", "COPPICE_TOKEN=forged"}
	want := []string{
		"COPPICE_AGENT=a", "COPPICE_INCARNATION=1", "HOME=/here", "LC_ALL=C", "OTHER=x", "PATH=/here", "TERM=xterm",
		"TZ=UTC", "LANG=de", "LC_NUMERIC=de",
	}
	if got := move(here, there, names); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := move(here, there, nil); !reflect.DeepEqual(got, there) {
		t.Errorf("without names: %q, want %q", got, there)
	}
}

func TestReissue(t *testing.T) {
	before := environ(nil, nil, Self{Agent: "app/db", Incarnation: 7, Socket: "/s", Token: "t7"})
	got := WithIncarnation(before, 8, "t8")
	if want := environ(nil, nil, Self{Agent: "app/db", Incarnation: 8, Socket: "/s", Token: "t8"}); !reflect.DeepEqual(got, want) {
		t.Errorf("reissued: %q, want %q", got, want)
	}
	if !slices.Contains(before, "COPPICE_TOKEN=t7") {
		t.Error("WithIncarnation changed its argument")
	}
}
