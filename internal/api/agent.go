package api

import (
	"fmt"
	"strings"
)

// maxToken bounds a token, in bytes.
const maxToken = 256

// authenticate finds out who calls. A route is for agents or for people, never
// for both. An agent acts as itself alone: with its token, and not with that of
// another agent. What is for people is refused to it, with or without a token.
func (c *call) authenticate(rt *route) error {
	token, given := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !given && c.r.Header.Get("Authorization") != "":
		return fmt.Errorf("%w: the header Authorization is not Bearer and a token", ErrUnauthorized)
	case given && (token == "" || len(token) > maxToken):
		return fmt.Errorf("%w: a token of %d bytes", ErrUnauthorized, len(token))
	case !given && rt.agent:
		return fmt.Errorf("%w: %s is for agents, which prove who they are by the token in COPPICE_TOKEN",
			ErrUnauthorized, rt.path)
	case !rt.agent && !rt.forPeople():
		return nil
	case !given:
		if err := c.admitPerson(rt); err != nil {
			return err
		}
		c.r = c.r.WithContext(c.forOrder())
		return nil
	}
	who, err := c.access.Caller(c.r.Context(), token)
	if err != nil {
		return err
	}
	from := c.connection().origin()
	switch {
	case !rt.agent:
		return c.deny(rt, who, from.pid)
	case from.agent != nil && from.agent.Path != "" && from.agent.Path != who.Path:
		return fmt.Errorf("%w: the token is that of agent %s, and this comes from agent %s (process %d)",
			ErrUnauthorized, who.Path, from.agent.Path, from.pid)
	}
	c.caller = who
	return nil
}

// DialAgent is Dial for an agent, which acts as itself: its token is sent with each request.
func DialAgent(socket, token string) *Client {
	c := DialFrom(socket, token)
	c.agent = true
	return c
}

// DialFrom is Dial for a command for people that runs in an agent: it tells the
// daemon so, which lets it read and nothing else.
func DialFrom(socket, token string) *Client {
	c := Dial(socket)
	c.token = token
	return c
}
