package rpc

import (
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Error is an error of a call: of etcd, or of the connection to it. Those below compare with errors.Is.
type Error struct {
	Code codes.Code
	Text string
}

// Error says in one sentence what is wrong, without the texts of Go and gRPC around it.
func (e Error) Error() string {
	switch {
	case e == errNoLeader:
		return "the members of etcd that answer have no leader; start more of them, until a majority runs"
	case e.isOfEtcd():
		return e.Text
	}
	text, _ := explain(e.Text)
	return text
}

// isOfEtcd reports whether etcd has said that, and not gRPC.
func (e Error) isOfEtcd() bool { return strings.HasPrefix(e.Text, "etcdserver: ") }

// Errors of etcd that the store tells from others.
var (
	ErrNoSpace         = Error{codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded"}
	ErrTooManyRequests = Error{codes.ResourceExhausted, "etcdserver: too many requests"}
	ErrTooManyOps      = Error{codes.InvalidArgument, "etcdserver: too many operations in txn request"}
	ErrRequestTooLarge = Error{codes.InvalidArgument, "etcdserver: request is too large"}
	ErrLeaseNotFound   = Error{codes.NotFound, "etcdserver: requested lease not found"}
	ErrCompacted       = Error{codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted"}
	ErrFutureRevision  = Error{codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision"}
	ErrLeaderChanged   = Error{codes.Unavailable, "etcdserver: leader changed"}
	ErrAuthFailed      = Error{codes.InvalidArgument,
		"etcdserver: authentication failed, invalid user ID or password"}
	ErrAuthNotEnabled  = Error{codes.FailedPrecondition, "etcdserver: authentication is not enabled"}
	ErrInvalidToken    = Error{codes.Unauthenticated, "etcdserver: invalid auth token"}
	ErrOldAuthRevision = Error{codes.InvalidArgument, "etcdserver: revision of auth store is old"}
	ErrUserEmpty       = Error{codes.InvalidArgument, "etcdserver: user name is empty"}
	ErrNoPermission    = Error{codes.PermissionDenied, "etcdserver: permission denied"}
	errNoLeader        = Error{codes.Unavailable, "etcdserver: no leader"}
)

// ErrTooLarge means that an answer has more than maxAnswer bytes: ask for fewer keys.
var ErrTooLarge = Error{codes.ResourceExhausted, "the answer of etcd has more than 16 MiB"}

// maxText bounds the text of an error, in bytes.
const maxText = 1000

// toError returns an Error for an error of gRPC.
func toError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return Error{codes.Unavailable, "etcd has ended the call without an answer"}
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := s.Message()
	if s.Code() == codes.ResourceExhausted && strings.HasPrefix(text, "grpc: received message") {
		return ErrTooLarge
	}
	return Error{s.Code(), plaintext.OneLine(text, maxText)}
}

// malformed returns the error for an answer that etcd does not give. Another attempt, with another member, may help.
func malformed(what string) error { return Error{codes.Internal, "malformed answer of etcd: " + what} }
