package cgroup

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/runtime"
)

func TestOwnPath(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"0::/\n", "/", ""},
		{"9:name=systemd:/\n8:pids:/x\n0::/user.slice/a b\n", "/user.slice/a b", ""},
		{"0::/system.slice/x.service/coppice-daemon", "/system.slice/x.service/coppice-daemon", ""},
		{"8:pids:/x\n", "", "version 2"},
		{"", "", "version 2"},
		{"0::/a (deleted)\n", "", "removed"},
		{"0::/../other\n", "", "not visible"},
		{"0::/..\n", "", "not visible"},
		{"0::relative\n", "", "not visible"},
	} {
		got, err := ownPath(c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
}

const hybrid = `24 1 0:22 / /proc rw,nosuid - proc proc rw
30 29 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 29 0:36 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
`

func TestMountOf(t *testing.T) {
	for _, c := range []struct{ name, text, own, want string }{
		{"hybrid", hybrid, "/", "/sys/fs/cgroup/unified"},
		{"below", hybrid, "/user.slice/x", "/sys/fs/cgroup/unified/user.slice/x"},
		{"unified", "30 23 0:26 / /sys/fs/cgroup ro shared:4 master:1 - cgroup2 cgroup rw\n", "/a", "/sys/fs/cgroup/a"},
		{"container", "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/docker/x", "/sys/fs/cgroup"},
		{"below a container", "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/docker/x/y", "/sys/fs/cgroup/y"},
		{"next to a container", "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/docker/xy", ""},
		{"not visible the namespace", "30 23 0:26 /.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/a", ""},
		{"blank", `30 23 0:26 / /mnt/a\040b\134c ro - cgroup2 cgroup rw`, "/x", `/mnt/a b\c/x`},
		{"second", "30 23 0:26 /other /o ro - cgroup2 cgroup rw\n31 23 0:26 / /all rw - cgroup2 cgroup rw\n", "/x", "/all/x"},
		{"name that looks like it", "30 23 0:26 / /mnt rw - cgroup2fs cgroup2 rw\n", "/x", ""},
		{"garbage", "\x00\n- cgroup2\n - cgroup2 x\n1 2 3 4 - cgroup2 x y\n", "/x", ""},
	} {
		got, err := mountOf(c.text, c.own)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0::/a\n", hybrid)
	f.Add("0::/a", `30 23 0:26 /a /mnt\040 ro - cgroup2 cgroup rw`)
	f.Fuzz(func(t *testing.T, own, mounts string) {
		p, err := ownPath(own)
		if err != nil {
			return
		}
		if !path.IsAbs(p) || strings.Contains(p, "..") && path.Clean(p) != p {
			t.Fatalf("own path %q", p)
		}
		dir, err := mountOf(mounts, p)
		if err == nil && !path.IsAbs(dir) {
			t.Fatalf("%q is mounted at %q", p, dir)
		}
		parseControllers(mounts)
		value(mounts, "populated")
	})
}

func TestSettings(t *testing.T) {
	all := memory | cpu | pids
	for _, c := range []struct {
		name     string
		limits   runtime.Limits
		has      controllers
		want     map[string]string
		enforced runtime.Limits
	}{
		{"nothing can be done", runtime.Limits{Memory: 1, CPU: 1, Processes: 1}, 0, map[string]string{}, runtime.Limits{}},
		{"all lifted", runtime.Limits{OpenFiles: 7}, all, map[string]string{
			"memory.oom.group": "0", "memory.swap.max": "max", "memory.max": "max", "cpu.max": "max 100000", "pids.max": "max",
		}, runtime.Limits{}},
		{"all set", runtime.Limits{Memory: 512 << 20, CPU: 1.5, Processes: 100, OpenFiles: 7}, all, map[string]string{
			"memory.oom.group": "1", "memory.swap.max": "0", "memory.max": "536870912", "cpu.max": "150000 100000", "pids.max": "100",
		}, runtime.Limits{Memory: 512 << 20, CPU: 1.5, Processes: 100}},
		{"only memory", runtime.Limits{Memory: 1 << 20, CPU: 2}, memory, map[string]string{
			"memory.oom.group": "1", "memory.swap.max": "0", "memory.max": "1048576",
		}, runtime.Limits{Memory: 1 << 20}},
		{"too small for the kernel", runtime.Limits{CPU: 1e-9, Processes: 1}, cpu | pids, map[string]string{
			"cpu.max": "1000 100000", "pids.max": "16",
		}, runtime.Limits{CPU: 1e-9, Processes: 1}},
		{"too large for the kernel", runtime.Limits{CPU: 1e300, Processes: 1 << 63}, cpu | pids, map[string]string{
			"cpu.max": "8796093022208 100000", "pids.max": "max",
		}, runtime.Limits{CPU: 1e300, Processes: 1 << 63}},
		{"negative", runtime.Limits{CPU: -1, Memory: -1}, cpu | memory, map[string]string{
			"memory.oom.group": "0", "memory.swap.max": "max", "memory.max": "max", "cpu.max": "max 100000",
		}, runtime.Limits{}},
	} {
		list, enforced := settings(c.limits, c.has)
		got := map[string]string{}
		for _, s := range list {
			got[s.file] = s.value
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if enforced != c.enforced {
			t.Errorf("%s: enforced %+v", c.name, enforced)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		Prefix + "a": true, Prefix + "ä b": true, "": false, "a": false, ".": false, Leaf: false,
		Prefix + "../x": false, Prefix + "a/b": false, Prefix + "a\nb": false, Prefix + "\x00": false,
		Prefix + strings.Repeat("x", 300): false,
	} {
		if err := valid(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
