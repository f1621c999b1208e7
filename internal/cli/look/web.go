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
	"github.com/coppice-dev/coppice/internal/web"
)

// webAddress is where the web page is served, unless that is in use.
const webAddress = "127.0.0.1:7391"

func NewWeb(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var listen string
	var open, readOnly bool
	var hosts []string
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the fleet as a web page",
		Long: `Serve the fleet as a web page on this machine, until Ctrl-C: what needs a person, the tree,
each agent with its output, events, and the inbox. The page is live, and agents can be started,
stopped and answered from it.

A link that lets one browser in is printed, and works once. The daemon may come and go meanwhile.
On an address of the network (--listen 0.0.0.0:7391) the page is read-only, and not encrypted.`,
		Example: `  coppice web --open
  coppice web --read-only --listen 0.0.0.0:7391 --host fleet.example.org`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				l, err := listenWeb(ctx, cmp.Or(listen, webAddress), listen == "")
				if err != nil {
					return err
				}
				address := l.Addr().(*net.TCPAddr)
				beyond := !address.IP.IsLoopback()
				file, err := r.Find()
				if err != nil {
					return err
				}
				page := web.New(web.Options{
					Client: c, File: file, ReadOnly: readOnly || beyond, By: command.UserName(), Logger: slog.Default(),
				})
				defer page.Close()
				url := page.URL(address) + page.NewLink(readOnly)
				how := "this link lets one browser in, once, within 10 minutes"
				if readOnly || beyond {
					how += "; the page is read-only"
				}
				if err := s.PrintLines(url, how); err != nil {
					return err
				}
				if open {
					if err := openBrowser(ctx, url); err != nil {
						s.Complain(fmt.Sprintf("no browser was opened: %v", err))
					}
				}
				server := httpserver.Server{Name: "the web page", Handler: page, Hosts: hosts, Logger: slog.Default()}
				return server.Serve(ctx, l)
			})
		},
	}
	r.Flags(cmd)
	cmd.Flags().StringVar(&listen, "listen", "", "the `ADDRESS` to serve on (default "+webAddress+")")
	cmd.Flags().StringSliceVar(&hosts, "host", nil,
		"a host `NAME` of this machine in URLs, next to localhost and IP addresses")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in the browser")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "only show the fleet; refuse all actions")
	return cmd
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
