package mail

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/token"
)

// Notices is a notice.Source for the messages that Deliver returns.
func (s *Service) Notices(ctx context.Context, who token.Caller, key string) (all []notice.Notice, err error) {
	messages, err := s.Deliver(ctx, who.Path, who.Incarnation, key)
	for _, m := range messages {
		n := notice.Notice{Kind: "mail", ID: m.ID, Text: fmt.Sprintf("From %s: %s. Run \"coppice agent "+
			"mail read %s\" to read it.", m.From, m.Subject, m.ID)}
		if m.Question != "" {
			n.Kind = "answer"
		}
		all = append(all, n)
	}
	return all, err
}
