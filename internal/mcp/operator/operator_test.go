package operator

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/mcp"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// assistant is a client of a server with the tools for people.
type assistant struct {
	*sdk.ClientSession
	t *testing.T
}

// assist starts a server and its client. The server calls an API with these routes.
func assist(t *testing.T, register func(*api.Server), allow ...string) assistant {
	t.Helper()
	client := api.Local(register)
	t.Cleanup(client.Close)
	tools, err := Tools(Options{
		Person: "ada", Allow: allow,
		Look: func(ctx context.Context, _ time.Duration, _ func(string),
			do func(context.Context, *api.Client) error) error {
			return do(ctx, client)
		},
		Ask: func(ctx context.Context, timeout time.Duration, do func(context.Context, *api.Client) error) error {
			return api.Retry(ctx, timeout, func() error { return do(ctx, client) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, tools)
}

func connect(t *testing.T, tools []mcp.Tool) assistant {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- mcp.Serve(context.Background(), mcp.Options{
			Version: "test", Instructions: Instructions, Tools: tools, In: in, Out: out,
			Logger: slog.New(slog.DiscardHandler),
		})
		out.Close()
	}()
	transport := &sdk.IOTransport{Reader: fromServer, Writer: toServer}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "tester\x1b[2J"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return assistant{session, t}
}

// use calls a tool.
func (a assistant) use(tool, arguments string) (text string, failed bool) {
	a.t.Helper()
	r, err := a.CallTool(context.Background(), &sdk.CallToolParams{
		Name: tool, Arguments: json.RawMessage(arguments),
	})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// want calls a tool, whose answer must have some texts.
func (a assistant) want(tool, arguments string, texts ...string) string {
	a.t.Helper()
	got, failed := a.use(tool, arguments)
	for _, want := range texts {
		if failed || !strings.Contains(got, want) {
			a.t.Errorf("%s %s: failed is %v, %s\nwant %s", tool, arguments, failed, got, want)
		}
	}
	return got
}

// wantError calls a tool that must fail.
func (a assistant) wantError(tool, arguments, want string) {
	a.t.Helper()
	if got, failed := a.use(tool, arguments); !failed || !strings.Contains(got, want) {
		a.t.Errorf("%s %s: failed is %v, %s\nwant %s", tool, arguments, failed, got, want)
	}
}

// No act is offered that was not allowed, and all tools are small, valid and say what they do.
func TestTools(t *testing.T) {
	for _, c := range []struct {
		allow []string
		acts  string
		bytes int // at most, of all tools
	}{
		{nil, "", 7 << 10},
		{[]string{"stop", "answer"}, "answer stop", 8 << 10},
		{[]string{All}, "answer drain fire mail_read mail_send order_run reset restart resume start stop suspend " +
			"task_add task_approve task_close task_comment task_pause task_reject task_release task_reopen " +
			"task_resume task_retry", 16 << 10},
	} {
		a := assist(t, func(*api.Server) {}, c.allow...)
		listed, err := a.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(listed); err != nil || len(data) > c.bytes {
			t.Errorf("%v: %d bytes, at most %d are wanted", c.allow, len(data), c.bytes)
		}
		var acts, reads []string
		for _, tool := range listed.Tools {
			hints := tool.Annotations
			switch {
			case hints == nil || hints.OpenWorldHint == nil || *hints.OpenWorldHint:
				t.Errorf("%s: %+v", tool.Name, hints)
			case hints.ReadOnlyHint:
				reads = append(reads, tool.Name)
			case hints.DestructiveHint == nil:
				t.Errorf("%s does not say whether it destroys anything", tool.Name)
			default:
				acts = append(acts, tool.Name)
			}
			if tool.Description == "" || len(tool.Description) > 250 {
				t.Errorf("%s: a description of %d bytes", tool.Name, len(tool.Description))
			}
			data, err := json.Marshal(tool.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			schema := new(jsonschema.Schema)
			if err := json.Unmarshal(data, schema); err != nil {
				t.Fatalf("%s: %v", tool.Name, err)
			}
		}
		if got := strings.Join(acts, " "); got != c.acts {
			t.Errorf("%v: the acts are %s, want %s", c.allow, got, c.acts)
		}
		want := strings.Fields("agents budgets costs events explain inbox logs orders quotas report status task tasks")
		if !slices.Equal(reads, want) {
			t.Errorf("%v: what reads is %v", c.allow, reads)
		}
	}
}

func TestUnknownAct(t *testing.T) {
	_, err := Tools(Options{Allow: []string{"stop", "strat"}})
	if want := `there is no act "strat" (did you mean "start"?); expected some of: all, start, stop, `; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := Tools(Options{Allow: []string{""}}); err == nil {
		t.Error("an empty name is accepted")
	}
}

// What does not fit is an error that says what was expected.
func TestArguments(t *testing.T) {
	a := assist(t, func(s *api.Server) {
		feed.Handle(s, func(context.Context, event.Query) iter.Seq2[event.Event, error] {
			return func(yield func(event.Event, error) bool) { yield(event.Event{Seq: 3}, nil) }
		})
	}, All)
	for _, c := range []struct{ tool, arguments, want string }{
		{"explain", `{}`, "path"},
		{"explain", `{"path":""}`, "minLength"},
		{"explain", `{"path":"a","x":1}`, "x"},
		{"agents", `{"limit":1000}`, "maximum"},
		{"logs", `{"path":"a","lines":0}`, "minimum"},
		{"logs", `{"path":"a","since":"yesterday"}`, `since is "yesterday", expected how long ago, such as 10m`},
		{"logs", `{"path":"a","since":"2999-01-01T00:00:00Z"}`, "or a past time"},
		{"events", `{"types":["agent.*"],"problems":true}`, "types and problems are given, expected one of them"},
		{"events", `{"types":["agent.nope"]}`, "there is no event type"},
		{"events", `{"after":4}`, "after is 4, and the last event is 3: the log has begun again; call it without after"},
		{"tasks", `{"statuses":["done"]}`, "enum"},
		{"costs", `{"by":"hour"}`, "enum"},
		{"report", `{"since":"-1h"}`, "expected how long ago"},
		{"drain", `{"path":"a","timeout":"soon"}`, `timeout is "soon", expected how long the agents may take, such as 10m`},
		{"drain", `{"path":"a","timeout":"8d"}`, "at most 168h"},
		{"mail_read", `{"ids":[]}`, "minItems"},
		{"task_close", `{"id":"x","outcome":"failed"}`, "enum"},
	} {
		a.wantError(c.tool, c.arguments, c.want)
	}
}

// An act is recorded under the name of the person, with that of the client.
func TestActsAreNamed(t *testing.T) {
	a := assist(t, func(s *api.Server) {
		question.Answer.Handle(s, func(_ context.Context, _ token.Caller, r question.AnswerRequest) (
			question.Question, error) {
			return question.Question{ID: r.ID, Answer: r.Answer + " by " + r.By}, nil
		})
	}, "answer")
	a.want("answer", `{"id":"q-1","answer":"yes"}`, `"answered":"yes by ada via tester"`)
}

// An act that is not safe to repeat is not repeated when its answer is lost, and others are.
func TestLostAnswers(t *testing.T) {
	calls := map[control.Action]int{}
	a := assist(t, func(s *api.Server) {
		control.Act.Handle(s, func(_ context.Context, _ token.Caller, r control.ActRequest) (control.Acted, error) {
			if calls[r.Action]++; calls[r.Action] == 1 {
				panic(http.ErrAbortHandler) // closes the connection
			}
			return control.Acted{Changed: 1}, nil
		})
	}, All)
	a.wantError("restart", `{"path":"a"}`, "it may have been done: look at the events before you call this again")
	a.want("stop", `{"path":"a"}`, `"changed":1`)
	if calls[control.Restart] != 1 || calls[control.Stop] != 2 {
		t.Errorf("calls: %v", calls)
	}
	a.want("restart", `{"path":"a"}`, `"changed":1`)
}

// A drain that takes long goes on without the call.
func TestLongDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := assist(t, func(s *api.Server) {
			drain.Begin.Handle(s, func(ctx context.Context, _ token.Caller, r drain.Request) (none api.None, _ error) {
				if r.Path == "idle" {
					return none, nil
				}
				<-ctx.Done()
				return none, ctx.Err()
			})
		}, "drain")
		began := time.Now()
		a.want("drain", `{"path":"a","timeout":"10m","reason":"new release"}`, `"drained":false`, "are asked to finish")
		if took := time.Since(began); took != drainWait {
			t.Errorf("it took %v", took)
		}
		a.want("drain", `{"path":"idle"}`, `"drained":true`)
	})
}
