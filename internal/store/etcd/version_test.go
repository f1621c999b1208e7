package etcd

import "testing"

func TestIsSince(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.5.13": true, "3.5.14": true, "3.6.0": true, "3.10.0": true, "4.0.0": true, "3.6.0-rc.1": true,
		"3.5.13+git": true, "3.7.3-alpha.0+x-y": true,
		"3.5.12": false, "3.5.13-rc.0": false, "3.4.30": false, "2.9.99": false,
		"": false, "3.6": false, "3.6.0.1": false, "3.6.x": false, "v3.6.0": false, "3.6.-1": false,
		"3.99999999999999999999.0": false,
	} {
		if got := isSince(version, oldest); got != want {
			t.Errorf("%s is at least %s: %v", version, oldest, got)
		}
	}
}
