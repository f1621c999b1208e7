package api

import (
	"context"
	"encoding/json"
	"iter"
)

// Unfinished shows what agents have begun to write.
type Unfinished interface {
	// Unfinished yields what there is of the last line of an agent's output while its
	// end was not written, such as a progress bar, at once and whenever that has
	// changed; "" when there is none. Some runtimes cannot tell: it yields nothing then.
	Unfinished(ctx context.Context, path string) iter.Seq2[string, error]
}

// UnfinishedLine is a message of the stream of GET /v1/logs/unfinished.
type UnfinishedLine struct {
	Text string `json:"text"`
}

func unfinishedRoutes() []route {
	path := param{name: "path", kind: "string", required: true}
	return []route{{method: "GET", path: "/v1/logs/unfinished", stream: true, params: []param{path},
		answer: UnfinishedLine{}, serve: (*call).unfinished}}
}

func (c *call) unfinished() error {
	return stream(c, func(ctx context.Context) iter.Seq2[UnfinishedLine, error] {
		return func(yield func(UnfinishedLine, error) bool) {
			for text, err := range c.service.Unfinished(ctx, c.query.text("path")) {
				if !yield(UnfinishedLine{text}, err) {
					return
				}
			}
		}
	}, nil)
}

// Unfinished implements Unfinished. It ends with an error when the connection is lost.
func (c *Client) Unfinished(ctx context.Context, path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		req, err := c.request(ctx, "GET", "/logs/unfinished", withPath(path), nil)
		if err != nil {
			yield("", err)
			return
		}
		for m, err := range c.stream(req, func() {}) {
			var line UnfinishedLine
			if err == nil {
				err = json.Unmarshal(m.data, &line)
			}
			if !yield(line.Text, err) || err != nil {
				return
			}
		}
	}
}
