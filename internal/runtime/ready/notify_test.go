package ready

import (
	"reflect"
	"testing"
)

func TestWithEnv(t *testing.T) {
	env := []string{"A=1", "B=2", "A=3"}
	if got, want := withEnv(env, "A", "4"), []string{"B=2", "A=4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("withEnv = %q, want %q", got, want)
	}
	if env[0] != "A=1" {
		t.Error("withEnv changed its argument")
	}
}
