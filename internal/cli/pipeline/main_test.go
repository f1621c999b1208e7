package pipeline

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Unsetenv("NO_COLOR") // of the environment that runs the tests
	goleak.VerifyTestMain(m)
}
