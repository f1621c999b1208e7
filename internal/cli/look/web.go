package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/httpserver"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/web"
)

// webAddress is where the web page is served, unless that is in use.
const webAddress = "127.0.0.1:7391"

func NewWeb(s *command.Streams) *cobra.Command {
	w := webCommand{Streams: s, r: command.NewRemote(s)}
	var signOut bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show the fleet as a web page",
		Long: `Print a link to the fleet as a web page: what needs a person, the tree, each agent with its
output, events, and the inbox. The page is live, and agents can be started, stopped and answered
from it. A link lets one browser in, once, within 10 minutes.

If coppice.toml has a [web] table, the daemon serves the page, and browsers stay signed in for
30 days. Otherwise, and with --listen, this command serves it until Ctrl-C; the daemon may come
and go meanwhile. On an address of the network (--listen 0.0.0.0:7391) the page is read-only, and
not encrypted.`,
		Example: `  coppice web --open
  coppice web --read-only --listen 0.0.0.0:7391 --host fleet.example.org
  coppice web --sign-out`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if signOut {
				for _, name := range []string{"listen", "host", "open", "read-only"} {
					if cmd.Flags().Changed(name) {
						return command.Usagef("--sign-out and --%s do not go together", name)
					}
				}
				return w.signOut()
			}
			return w.r.Ask(w.show)
		},
	}
	w.r.Flags(cmd)
	cmd.Flags().StringVar(&w.listen, "listen", "", "serve it on an `ADDRESS` (default "+webAddress+")")
	cmd.Flags().StringSliceVar(&w.hosts, "host", nil,
		"serve it also under a host `NAME` of this machine, next to localhost and IP addresses")
	cmd.Flags().BoolVar(&w.open, "open", false, "open the page in the browser")
	cmd.Flags().BoolVar(&w.readOnly, "read-only", false, "make a link with which a browser can only look, not act")
	cmd.Flags().BoolVar(&signOut, "sign-out", false, "sign all browsers out of the page of the daemon")
	return cmd
}

// webCommand is coppice web.
type webCommand struct {
	*command.Streams
	r              *command.Remote
	listen         string
	hosts          []string
	open, readOnly bool
}

// show prints a link to the page of the daemon, or serves a page of its own.
func (w *webCommand) show(ctx context.Context, c *api.Client) error {
	if w.listen == "" && w.hosts == nil {
		link, err := web.MakeLink.Call(ctx, c, web.LinkRequest{ReadOnly: w.readOnly})
		switch {
		case err == nil:
			return w.tell(ctx, link.URL, link.ReadOnly)
		case errors.Is(err, api.ErrConflict):
			return fmt.Errorf("%w\nserve it apart from the daemon with: coppice web --listen 127.0.0.1:7392", err)
		case !errors.Is(err, api.ErrNotFound) && !errors.Is(err, api.ErrDown) && !errors.Is(err, api.ErrUnauthorized):
			return err
		}
	}
	return w.serve(ctx, c)
}

// serve serves a page until ctx ends.
func (w *webCommand) serve(ctx context.Context, c *api.Client) error {
	l, err := listenWeb(ctx, cmp.Or(w.listen, webAddress), w.listen == "")
	if err != nil {
		return err
	}
	address := l.Addr().(*net.TCPAddr)
	readOnly := w.readOnly || !address.IP.IsLoopback()
	file, err := w.r.Find()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	page := web.New(web.Options{
		Client: c, File: file, ReadOnly: readOnly, By: command.UserName(), Logger: slog.Default(),
	})
	defer page.Close()
	if err := w.tell(ctx, page.URL(address)+page.NewLink(readOnly), readOnly); err != nil {
		return errors.Join(err, l.Close())
	}
	server := httpserver.Server{Name: "the web page", Handler: page, Hosts: w.hosts, Logger: slog.Default()}
	return server.Serve(ctx, l)
}

// tell prints a link, and opens it.
func (w *webCommand) tell(ctx context.Context, url string, readOnly bool) error {
	how := "this link lets one browser in, once, within 10 minutes"
	if readOnly {
		how += "; the page is read-only"
	}
	if err := w.PrintLines(url, how); err != nil {
		return err
	}
	if w.open {
		if err := openBrowser(ctx, url); err != nil {
			w.Complain(fmt.Sprintf("no browser was opened: %v", err))
		}
	}
	return nil
}

// signOut signs all browsers out of the page of the daemon.
func (w *webCommand) signOut() error {
	return w.r.Ask(func(ctx context.Context, c *api.Client) error {
		out, err := web.SignOut.Call(ctx, c, api.None{})
		if err != nil {
			return err
		}
		return w.PrintLines(plaintext.Plural(out.Browsers, "browser") + " signed out")
	})
}

// listenWeb listens on an address, or on any port if that is in use and another one will do.
func listenWeb(ctx context.Context, address string, anyPort bool) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if anyPort && errors.Is(err, syscall.EADDRINUSE) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("the page cannot be served: %w; choose another address with --listen", err)
	}
	return l, nil
}

// openBrowser opens a page in the browser of the desktop.
func openBrowser(ctx context.Context, url string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	return exec.CommandContext(ctx, name, url).Run()
}
