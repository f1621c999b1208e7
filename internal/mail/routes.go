package mail

import "github.com/coppice-dev/coppice/internal/api"

// Routes for mail. The caller is an agent or people; each has one mailbox.
var (
	// List returns the messages of the caller's mailbox, without their bodies.
	List = api.Route[ListRequest, []Message]{
		Method: "GET", Path: "/mail", For: api.People | api.Agents,
		ID: "listMail", Summary: "List the messages of the caller",
		Doc:     "Unread messages, or all of them; oldest first, without bodies.",
		Returns: "The messages.",
	}
	// Send sends a message and returns when it is durable.
	Send = api.Route[SendRequest, Message]{
		// JSON may take six bytes for one.
		Method: "POST", Path: "/mail/send", For: api.People | api.Agents, MaxBody: 6*MaxBody + 8<<10,
		ID: "sendMail", Summary: "Send a message as the caller",
		Doc: "Answers when the message is durable. The request may have 400 KiB, the " +
			"body of a message 64 KiB.",
		Returns: "The message, without its body.",
	}
	// Read returns messages with their bodies and marks them as read.
	Read = api.Route[IDs, []Message]{
		Method: "POST", Path: "/mail/read", For: api.People | api.Agents,
		ID: "readMail", Summary: "Read messages of the caller",
		Doc:     "Marks them as read. If one is missing, none is read. At most 40 at a time.",
		Returns: "The messages with their bodies.",
	}
	// Archive marks messages as archived.
	Archive = api.Route[IDs, api.None]{
		Method: "POST", Path: "/mail/archive", For: api.People | api.Agents,
		ID: "archiveMail", Summary: "Archive messages of the caller",
		Doc: "If one is missing, none is archived. At most 40 at a time.",
	}
	// Deliver returns the unread messages that an incarnation has not been shown yet.
	Deliver = api.Route[DeliverRequest, []Message]{
		Method: "POST", Path: "/mail/deliver", For: api.Agents,
		ID: "deliverMail", Summary: "Deliver unread messages to the calling incarnation",
		Doc: "Each unread message is delivered once to each incarnation, at most 40 at a time; " +
			"the same key delivers the same messages again.",
		Returns: "The messages, without their bodies.",
	}
)

// ListRequest selects the messages to list.
type ListRequest struct {
	All bool `json:"all,omitempty" doc:"All stored messages, not only unread ones."`
}

// SendRequest is a message to be sent.
type SendRequest struct {
	_ struct{} `schema:"MailRequest" doc:"A message to be sent."`

	To      string `json:"to,omitempty" doc:"Path of an agent, or people. The project may be left out of the path. Optional in a reply."`
	Subject string `json:"subject,omitempty" doc:"One line of at most 256 bytes. Default: the first line of the body."`
	Body    string `json:"body,omitempty" doc:"At most 64 KiB."`
	ReplyTo string `json:"reply_to,omitempty" doc:"A message that the sender has received or sent."`
	Key     string `json:"key,omitempty" maxLength:"128" doc:"A message with the same key is delivered only once."`
}

// IDs names messages of the caller's mailbox.
type IDs struct {
	_   struct{} `schema:"MailIDs" doc:"Messages of the caller's mailbox."`
	IDs []string `json:"ids" doc:"Such as m-7."`
}

// DeliverRequest identifies a delivery.
type DeliverRequest struct {
	_   struct{} `doc:"Identifies a delivery."`
	Key string   `json:"key,omitempty" maxLength:"128" doc:"The same key delivers the same messages again."`
}
