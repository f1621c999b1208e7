package rpc

import (
	"context"
	"errors"
	"sync"
)

// login has the token of a user, which etcd gives for a password. A token ends after some minutes without use, when the
// password changes, and when a member restarts.
type login struct {
	user, password string
	asking         chan struct{} // has a token while etcd is asked
	mu             sync.Mutex
	token          string // empty if etcd wants none
	known          bool
}

// authorized makes a call with the token of the user. If it is refused, it makes the call once more, with a new one.
// Nothing was done then.
func (c *Client) authorized(ctx context.Context, call func(context.Context) error) error {
	for again := false; ; again = true {
		token, err := c.token(ctx)
		if err != nil {
			return err
		}
		err = call(withMetadata(ctx, token))
		if !isStale(err) || again {
			return err
		}
		c.login.drop(token)
	}
}

// isStale reports whether another token may help.
func isStale(err error) bool {
	return errors.Is(err, ErrInvalidToken) || errors.Is(err, ErrOldAuthRevision) || errors.Is(err, ErrUserEmpty)
}

// token returns the token of the user. It asks etcd if there is none.
func (c *Client) token(ctx context.Context) (string, error) {
	l := &c.login
	if l.user == "" {
		return "", nil
	}
	if token, known := l.get(); known {
		return token, nil
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token, known := l.get(); known { // by another call
		return token, nil
	}
	var a authenticateAnswer
	_, err := invoke(withMetadata(ctx, ""), c.conn, "/etcdserverpb.Auth/Authenticate",
		authenticateRequest{l.user, l.password}, &a)
	if err != nil && !errors.Is(err, ErrAuthNotEnabled) {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.known = a.token, true
	return a.token, nil
}

func (l *login) get() (token string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token, l.known
}

// drop forgets a token that was refused, unless there is a new one already.
func (l *login) drop(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = l.known && l.token != token
}
