package otlp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	listenAgain = 10 * time.Second // after the address was in use
	readTimeout = 10 * time.Second // of a request
	drain       = time.Second      // for requests to end
)

// Serve serves exporters on an address until ctx ends. While the address is in use, as by another daemon, it tries
// again.
func (r *Receiver) Serve(ctx context.Context, address string, logger *slog.Logger) {
	for told := false; ctx.Err() == nil; {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			if told {
				logger.Info("receiving what command lines export", "address", address)
				told = false
			}
			err = r.serve(ctx, l)
		}
		if err != nil && ctx.Err() == nil && !told {
			logger.Warn("cannot receive what command lines export; trying again", "address", address, "error", err)
			told = true
		}
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
		}
	}
}

// serve serves the clients of a listener until ctx ends, or the listener fails.
func (r *Receiver) serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: r, ReadTimeout: readTimeout, WriteTimeout: readTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if s.Shutdown(within) != nil {
			s.Close()
		}
	}()
	err := s.Serve(l)
	close(ended)
	<-stopped
	return err
}
