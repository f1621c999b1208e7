package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
)

// forwarded is the prefix of the paths of requests that a Forwarder has passed on.
const forwarded = "/v1/exports"

// Forwarder returns a handler for exporters on a machine without a Receiver. It passes their requests on to one by a
// transport, whichever host the URL of a request names. While that is not reached, exporters are told to try again.
// Accept is the other end.
func Forwarder(to http.RoundTripper, logger *slog.Logger) http.Handler {
	return http.MaxBytesHandler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "receiver"
			r.Out.URL.Path, r.Out.URL.RawPath = forwarded+r.In.URL.Path, ""
		},
		Transport: to,
		ErrorLog:  slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			status := http.StatusServiceUnavailable
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				status, err = http.StatusRequestEntityTooLarge, errTooLarge
			}
			logger.Debug("an export was not passed on", "request", r.URL.Path, "error", err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			json.NewEncoder(w).Encode(map[string]string{"message": fmt.Sprint(err)})
		},
	}, maxBody)
}

// Accept returns a handler that passes what a Forwarder has sent to a Receiver, and all other requests to next.
func Accept(r *Receiver, next http.Handler) http.Handler {
	exports := http.StripPrefix(forwarded, r)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, forwarded+"/") {
			exports.ServeHTTP(w, q)
			return
		}
		next.ServeHTTP(w, q)
	})
}
