package landlock

import (
	"errors"
	"strings"
	"testing"
)

// A kernel that would hold less than promised is not used.
func TestSupports(t *testing.T) {
	missing := errors.New("the kernel has no Landlock")
	for _, c := range []struct {
		abi   int
		err   error
		wrong string
	}{
		{0, missing, missing.Error()},
		{1, nil, "version 1 of its interface, expected at least 3"},
		{2, nil, "version 2"},
		{3, nil, ""},
		{7, nil, ""},
		{99, nil, ""},
	} {
		err := supports(c.abi, c.err)
		if (err == nil) != (c.wrong == "") || err != nil &&
			(!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("version %d, %v: %v", c.abi, c.err, err)
		}
	}
}
