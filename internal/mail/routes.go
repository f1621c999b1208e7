package mail

import "github.com/coppice-dev/coppice/internal/api"

// Routes for mail. The caller is an agent or people; each has one mailbox.
var (
	// List returns the messages of the caller's mailbox, without their bodies.
	List = api.Route[ListRequest, []Message]{
		Method: "GET", Path: "/mail", For: api.People | api.Agents,
		ID: "listMail", Summary: "The mailbox of the caller",
		Doc:     "Oldest first, without bodies: what is unread, or all.",
		Returns: "The messages.",
	}
	// Send sends a message and returns when it is durable.
	Send = api.Route[SendRequest, Message]{
		// JSON may take six bytes for one.
		Method: "POST", Path: "/mail/send", For: api.People | api.Agents, MaxBody: 6*MaxBody + 8<<10,
		ID: "sendMail", Summary: "Send a message as the caller",
		Doc: "The answer comes when the message is durable. The request may have 400 KiB, the " +
			"body of a message 64 KiB.",
		Returns: "The message, without its body.",
	}
	// Read returns messages with their bodies and marks them as read.
	Read = api.Route[IDs, []Message]{
		Method: "POST", Path: "/mail/read", For: api.People | api.Agents,
		ID: "readMail", Summary: "Read messages of the caller",
		Doc:     "They are marked as read: all of them or, if one is not there, none. At most 40 at a time.",
		Returns: "The messages with their bodies.",
	}
	// Archive marks messages as archived.
	Archive = api.Route[IDs, api.None]{
		Method: "POST", Path: "/mail/archive", For: api.People | api.Agents,
		ID: "archiveMail", Summary: "Put messages of the caller away",
		Doc: "All of them or, if one is not there, none. At most 40 at a time.",
	}
	// Deliver returns the unread messages that an incarnation has not been shown yet.
	Deliver = api.Route[DeliverRequest, []Message]{
		Method: "POST", Path: "/mail/deliver", For: api.Agents,
		ID: "deliverMail", Summary: "What the incarnation was not told of yet",
		Doc: "Each unread message comes once to each incarnation, at most 40 at a time; " +
			"with the same key the same ones come again.",
		Returns: "The messages, without their bodies.",
	}
)

// ListRequest selects the messages to list.
type ListRequest struct {
	All bool `json:"all,omitempty" doc:"All that is kept, not only what is waiting."`
}

// SendRequest is a message to be sent.
type SendRequest struct {
	_ struct{} `schema:"MailRequest" doc:"A message that is to be sent."`

	To      string `json:"to,omitempty" doc:"Path of an agent, or people. The first segment, the project, may be left out; all of it in a reply."`
	Subject string `json:"subject,omitempty" doc:"One line of at most 256 bytes; the first line of the body if it is not given."`
	Body    string `json:"body,omitempty" doc:"At most 64 KiB."`
	ReplyTo string `json:"reply_to,omitempty" doc:"A message that the sender has got or sent."`
	Key     string `json:"key,omitempty" maxLength:"128" doc:"What is sent again under the same key is delivered once."`
}

// IDs names messages of the caller's mailbox.
type IDs struct {
	_   struct{} `schema:"MailIDs" doc:"Messages of the caller's mailbox."`
	IDs []string `json:"ids" doc:"Such as m-7."`
}

// DeliverRequest identifies a delivery.
type DeliverRequest struct {
	_   struct{} `doc:"Which delivery is asked for."`
	Key string   `json:"key,omitempty" maxLength:"128" doc:"With the same key the same messages come again."`
}
