// Package lsp implements the language server of Sage, which presents the results of the checker in
// editors. It speaks the Language Server Protocol.
//
// No message ends the server. A failed request is answered with an error, even if the parser or the
// checker panics.
package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/sage/load"
)

// Options are the options of Serve.
type Options struct {
	Version  string        // reported to the client
	Projects load.Projects // finds the projects of files
	Logger   *slog.Logger
	// Delay is the time between the first of several changes and the diagnostics. 0 means 150 ms.
	Delay time.Duration
}

// ErrNoShutdown is the error of a session that ends without a shutdown request.
var ErrNoShutdown = errors.New("client exited without shutdown")

// Serve serves one client until it sends exit, in ends or ctx is done. It returns nil if the client
// had requested a shutdown. It closes in at the end, which unblocks a pending read.
func Serve(ctx context.Context, in io.ReadCloser, out io.Writer, o Options) error {
	if o.Delay <= 0 {
		o.Delay = 150 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{
		log: o.Logger, version: o.Version, sources: o.Projects,
		documents: map[string]*document{}, projects: map[string]*project{}, published: map[string]bool{},
		changed: make(chan struct{}, 1),
	}
	s.methods = s.handlers()
	s.stream = &stream{r: bufio.NewReader(in), w: out}
	var background sync.WaitGroup
	background.Go(func() { s.diagnose(ctx, o.Delay) })
	background.Go(func() {
		<-ctx.Done()
		_ = in.Close()
	})
	err := s.answerAll()
	cancel()
	background.Wait()
	switch {
	case s.shutdown:
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrNoShutdown
	}
	return fmt.Errorf("communicating with the client: %w", err)
}

// answerAll answers messages until the client sends exit or the input ends.
func (s *server) answerAll() error {
	for !s.exited {
		message, err := s.stream.Recv()
		if err != nil {
			return err
		}
		if answer := s.answer(message); answer != nil {
			if err := s.write(answer); err != nil {
				return err
			}
		}
	}
	return nil
}

type server struct {
	log     *slog.Logger
	version string
	sources load.Projects
	methods map[string]handler
	stream  *stream
	writing sync.Mutex // guards writes to the stream

	// Used only by the message loop.
	initialized, shutdown, exited bool
	client                        initializeParams

	mu        sync.Mutex
	documents map[string]*document // by path
	projects  map[string]*project  // by root
	edition   int                  // counts changes to documents and files
	published map[string]bool      // paths with published diagnostics
	changed   chan struct{}        // signals diagnose

	checking sync.Mutex // guards the analyses of projects
}

func (s *server) handlers() map[string]handler {
	return map[string]handler{
		"initialize":                       handle(s, s.initialize),
		"initialized":                      handle(s, s.ready),
		"shutdown":                         noResult(s, s.end),
		"exit":                             s.exit,
		"$/cancelRequest":                  noResult(s, s.ignore), // the request has already been answered
		"textDocument/didOpen":             noResult(s, s.didOpen),
		"textDocument/didChange":           noResult(s, s.didChange),
		"textDocument/didClose":            noResult(s, s.didClose),
		"textDocument/didSave":             noResult(s, s.filesChanged),
		"workspace/didChangeWatchedFiles":  noResult(s, s.filesChanged),
		"workspace/didChangeConfiguration": noResult(s, s.ignore),
		"textDocument/hover":               handle(s, s.hover),
		"textDocument/completion":          handle(s, s.complete),
		"textDocument/definition":          handle(s, s.definition),
		"textDocument/references":          handle(s, s.references),
		"textDocument/prepareRename":       handle(s, s.prepareRename),
		"textDocument/rename":              handle(s, s.rename),
		"textDocument/formatting":          handle(s, s.format),
		"textDocument/documentSymbol":      handle(s, s.symbols),
	}
}

// guard turns a panic into an error.
func (s *server) guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("internal error", "in", what, "error", p, "stack", string(debug.Stack()))
			err = refuse(codeInternal, "internal error in %s: %v", what, p)
		}
	}()
	return f()
}

func (s *server) initialize(p *initializeParams) (initializeResult, error) {
	if s.initialized {
		return initializeResult{}, refuse(codeInvalid, "initialize is only allowed once")
	}
	s.initialized, s.client = true, *p
	return initializeResult{
		Capabilities: capabilities{
			PositionEncoding:           "utf-16",
			TextDocumentSync:           syncOptions{OpenClose: true, Change: incremental, Save: true},
			HoverProvider:              true,
			CompletionProvider:         completionOptions{TriggerCharacters: []string{".", ":"}},
			DefinitionProvider:         true,
			ReferencesProvider:         true,
			RenameProvider:             renameOptions{PrepareProvider: true},
			DocumentFormattingProvider: true,
			DocumentSymbolProvider:     true,
		},
		ServerInfo: serverInfo{Name: "coppice", Version: s.version},
	}, nil
}

// none is the type of ignored parameters and absent results.
type none any

// ready asks the client to report changes of files on disk.
func (s *server) ready(*none) (none, error) {
	if !s.client.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration {
		return nil, nil
	}
	watchers := []watcher{{"**/*.sg"}, {"**/grove.toml"}, {"**/sage.toml"}, {"**/coppice.toml"}}
	return nil, s.send("watch", "client/registerCapability", registrationParams{[]registration{
		{ID: "files", Method: "workspace/didChangeWatchedFiles", Options: watchedOptions{watchers}},
	}})
}

func (s *server) ignore(*none) {}

func (s *server) end(*none) { s.shutdown = true }

// exit ends the session in any state.
func (s *server) exit(string, json.RawMessage) (any, error) {
	s.exited = true
	return nil, nil
}

func (s *server) didOpen(p *didOpenParams) {
	d := &document{uri: p.TextDocument.URI, path: pathOf(p.TextDocument.URI), version: p.TextDocument.Version,
		text: p.TextDocument.Text}
	s.update(func() { s.documents[d.path] = d }, true)
}

func (s *server) didChange(p *didChangeParams) {
	s.update(func() {
		d := s.documents[pathOf(p.TextDocument.URI)]
		if d == nil {
			s.log.Warn("ignoring a change to a document that is not open", "uri", p.TextDocument.URI)
			return
		}
		d.apply(p.ContentChanges)
		d.version = p.TextDocument.Version
	}, false)
}

func (s *server) didClose(p *documentParams) {
	s.update(func() { delete(s.documents, pathOf(p.TextDocument.URI)) }, true)
}

func (s *server) filesChanged(*none) { s.update(func() {}, true) }

// update changes the documents. files tells whether files of the project may have been added or
// removed.
func (s *server) update(change func(), files bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.edition++
	if files {
		clear(s.projects)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
