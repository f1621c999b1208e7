package api

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// A daemon that ends drops who has connected and was not served yet. What only
// reads asks once more, and says then that there is none, or has the answer of
// the next one. What changes something does not: it may have been done.
func TestLostBeforeTheAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		successor bool
		call      func(*Client) error
		want      error
	}{
		"read, none after it":    {false, func(c *Client) error { return reach(t.Context(), c) }, ErrDown},
		"read, another after it": {true, func(c *Client) error { return reach(t.Context(), c) }, nil},
		"act, another after it":  {true, func(c *Client) error { _, err := actRoute.Call(t.Context(), c, actRequest{}); return err }, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			socket := tempSocket(t)
			if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(versionHeader, Version)
				w.Write([]byte("[]"))
			})}
			t.Cleanup(func() { s.Close() })
			go func() {
				conn, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				if !tt.successor {
					l.Close()
				}
				conn.Close()
				s.Serve(l) // fails at once where it is closed
			}()
			if err := tt.call(dial(t, socket)); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}
