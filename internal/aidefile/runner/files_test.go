package runner

import (
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/private"
)

// write writes the file of a request.
func (q RunRequest) write(t testing.TB, file string) {
	t.Helper()
	text, err := q.Text()
	if err == nil {
		err = private.Replace(file, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readRecords reads what is known of the last run of the request in a file.
func readRecords(request string) (callfile.Records, error) {
	q, err := Read(request)
	if err != nil {
		return callfile.Records{}, err
	}
	all, err := callfile.Read(recordsFile(request))
	if !all.Fired.Equal(q.Fired) { // it has not begun
		return callfile.Records{Fired: q.Fired}, err
	}
	return all, err
}

// removeRecords removes what is known of the last run of the request in a file.
func removeRecords(request string) error { return callfile.Remove(recordsFile(request)) }

func recordsFile(request string) string { return filepath.Join(filepath.Dir(request), callfile.Name) }
