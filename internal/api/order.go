package api

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Orders is what runs when its gates open, see docs/orders.md. Errors: ErrNotFound,
// ErrConflict, ErrInvalid.
type Orders interface {
	Orders(ctx context.Context) ([]Order, error)
	Order(ctx context.Context, name string) (Order, error)
	// CheckOrder says whether an order is due, and runs its check for that.
	CheckOrder(ctx context.Context, name string) (Order, error)
	// NextOrder are the next times at which it fires, as far as the clock decides that; ErrConflict if it does not.
	NextOrder(ctx context.Context, name string, count int) (OrderTimes, error)
	// OrderRuns are the last runs of an order, the newest first.
	OrderRuns(ctx context.Context, name string, count int) ([]OrderRun, error)
	// OrderRun is one run; with wait, once it has ended.
	OrderRun(ctx context.Context, id string, wait bool) (OrderRun, error)
	ActOnOrder(ctx context.Context, a OrderAct) (OrderActed, error)
}

// Order is an order and how it gets on.
type Order struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Exec        []string    `json:"exec,omitempty"`
	Task        string      `json:"task,omitempty"` // the title of the task that it makes
	Pool        string      `json:"pool,omitempty"` // of that
	Match       string      `json:"match"`          // any, all
	Gates       []OrderGate `json:"gates"`
	Enabled     bool        `json:"enabled"`
	ByHand      string      `json:"by_hand,omitempty"` // enabled or disabled, if a person has decided that
	Due         bool        `json:"due"`
	Reason      string      `json:"reason"` // why it is due, or not
	NextAt      *time.Time  `json:"next_at,omitempty"`
	Running     int         `json:"running"`
	Pending     int         `json:"pending"` // events that wait for it
	Runs        uint64      `json:"runs"`    // that ever began
	Skips       uint64      `json:"skips"`
	Skipped     string      `json:"skipped,omitempty"` // why it was skipped last
	SkippedAt   *time.Time  `json:"skipped_at,omitempty"`
	Last        *OrderRun   `json:"last,omitempty"`
	Overlap     string      `json:"overlap"`
	CatchUp     bool        `json:"catch_up"`
	Timeout     float64     `json:"timeout_seconds"`
	Retries     int         `json:"retries"`
	Dir         string      `json:"dir"`
	Source      string      `json:"source"`         // file:line:column
	Said        []string    `json:"said,omitempty"` // what its check wrote, if it was just run
}

// OrderGate is one of its gates.
type OrderGate struct {
	Kind   string     `json:"kind"`
	Text   string     `json:"text"`
	Open   bool       `json:"open"`
	Reason string     `json:"reason"`
	NextAt *time.Time `json:"next_at,omitempty"`
}

// OrderRun is a run of an order.
type OrderRun struct {
	ID        string     `json:"id"`
	Order     string     `json:"order"`
	Status    string     `json:"status"` // running, retrying, completed, failed, timed out, stopped, interrupted
	Reason    string     `json:"reason"`
	By        string     `json:"by,omitempty"` // who fired it, if not its gates
	Attempt   int        `json:"attempt"`
	FiredAt   time.Time  `json:"fired_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	RetryAt   *time.Time `json:"retry_at,omitempty"`
	Duration  float64    `json:"duration_seconds"`
	Code      *int       `json:"code,omitempty"`
	Signal    string     `json:"signal,omitempty"`
	Error     string     `json:"error,omitempty"`
	Task      string     `json:"task,omitempty"` // that it has made
	Events    int        `json:"events,omitempty"`
	Output    []string   `json:"output,omitempty"` // its last lines
}

// OrderCounts is how the orders get on, in short.
type OrderCounts struct {
	Total    int        `json:"total"`
	Disabled int        `json:"disabled"`
	Running  int        `json:"running"` // runs that go on
	Failing  int        `json:"failing"` // whose last run has not completed
	NextAt   *time.Time `json:"next_at,omitempty"`
	Next     string     `json:"next,omitempty"` // which is due then
}

// OrderTimes is the answer of GET /v1/order/next.
type OrderTimes struct {
	Times []time.Time `json:"times"`
}

// OrderAction is what is done with an order.
type OrderAction string

// Actions on an order.
const (
	RunOrder     OrderAction = "run"     // fire it, whatever its gates say
	StopOrder    OrderAction = "stop"    // end the runs that go on
	EnableOrder  OrderAction = "enable"  // its gates may fire it
	DisableOrder OrderAction = "disable" // only people may
)

// OrderActions are all there are.
func OrderActions() []OrderAction {
	return []OrderAction{RunOrder, StopOrder, EnableOrder, DisableOrder}
}

// OrderAct is the body of POST /v1/order/act.
type OrderAct struct {
	Name   string      `json:"name"`
	Action OrderAction `json:"action"`
	By     string      `json:"by,omitempty"` // name of the person
}

// OrderActed is what has come of it.
type OrderActed struct {
	Run     string `json:"run,omitempty"`    // id of the run that began
	Queued  bool   `json:"queued,omitempty"` // it runs when the run that goes on has ended
	Stopped int    `json:"stopped,omitempty"`
}

// maxOrderTimes bounds counts in requests about orders.
const maxOrderTimes = 1000

func orderRoutes() []route {
	name := param{name: "name", kind: "string", required: true}
	count := param{name: "count", kind: "integer"}
	return []route{
		{method: "GET", path: "/v1/orders", answer: []Order{}, serve: (*call).orders},
		{method: "GET", path: "/v1/order", params: []param{name}, answer: Order{}, serve: (*call).order},
		{method: "GET", path: "/v1/order/check", params: []param{name}, answer: Order{}, serve: (*call).checkOrder},
		{method: "GET", path: "/v1/order/next", params: []param{name, count}, answer: OrderTimes{},
			serve: (*call).nextOrder},
		{method: "GET", path: "/v1/order/runs", params: []param{name, count}, answer: []OrderRun{},
			serve: (*call).orderRuns},
		{method: "GET", path: "/v1/order/run", params: []param{{name: "id", kind: "string", required: true},
			{name: "wait", kind: "boolean"}}, stays: true, answer: OrderRun{}, serve: (*call).orderRun},
		{method: "POST", path: "/v1/order/act", body: OrderAct{}, answer: OrderActed{}, serve: (*call).actOnOrder},
	}
}

func (c *call) orders() error {
	all, err := c.service.Orders(c.r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []Order{}
	}
	return c.answer(all)
}

func (c *call) order() error {
	o, err := c.service.Order(c.r.Context(), c.query.text("name"))
	if err != nil {
		return err
	}
	return c.answer(o)
}

func (c *call) checkOrder() error {
	o, err := c.service.CheckOrder(c.r.Context(), c.query.text("name"))
	if err != nil {
		return err
	}
	return c.answer(o)
}

func (c *call) nextOrder() error {
	times, err := c.service.NextOrder(c.r.Context(), c.query.text("name"),
		int(min(c.query.number("count", 5), maxOrderTimes)))
	if err != nil {
		return err
	}
	if times.Times == nil {
		times.Times = []time.Time{}
	}
	return c.answer(times)
}

func (c *call) orderRuns() error {
	all, err := c.service.OrderRuns(c.r.Context(), c.query.text("name"),
		int(min(c.query.number("count", 20), maxOrderTimes)))
	if err != nil {
		return err
	}
	if all == nil {
		all = []OrderRun{}
	}
	return c.answer(all)
}

func (c *call) orderRun() error {
	r, err := c.service.OrderRun(c.r.Context(), c.query.text("id"), c.query.flag("wait"))
	if err != nil {
		return err
	}
	return c.answer(r)
}

func (c *call) actOnOrder() error {
	var a OrderAct
	if err := c.body(&a); err != nil {
		return err
	}
	for what, text := range map[string]string{"name": a.Name, "by": a.By} {
		if err := checkText(text); err != nil {
			return fmt.Errorf("%w: %s %w", ErrInvalid, what, err)
		}
	}
	done, err := c.service.ActOnOrder(c.r.Context(), a)
	if err != nil {
		return err
	}
	return c.answer(done)
}

// Orders implements Orders.
func (c *Client) Orders(ctx context.Context) (all []Order, err error) {
	err = c.call(ctx, "GET", "/orders", nil, nil, &all)
	return all, err
}

// Order implements Orders.
func (c *Client) Order(ctx context.Context, name string) (o Order, err error) {
	err = c.call(ctx, "GET", "/order", url.Values{"name": {name}}, nil, &o)
	return o, err
}

// CheckOrder implements Orders.
func (c *Client) CheckOrder(ctx context.Context, name string) (o Order, err error) {
	err = c.call(ctx, "GET", "/order/check", url.Values{"name": {name}}, nil, &o)
	return o, err
}

// NextOrder implements Orders.
func (c *Client) NextOrder(ctx context.Context, name string, count int) (t OrderTimes, err error) {
	err = c.call(ctx, "GET", "/order/next", url.Values{"name": {name}, "count": {strconv.Itoa(count)}}, nil, &t)
	return t, err
}

// OrderRuns implements Orders.
func (c *Client) OrderRuns(ctx context.Context, name string, count int) (all []OrderRun, err error) {
	err = c.call(ctx, "GET", "/order/runs", url.Values{"name": {name}, "count": {strconv.Itoa(count)}}, nil, &all)
	return all, err
}

// OrderRun implements Orders.
func (c *Client) OrderRun(ctx context.Context, id string, wait bool) (r OrderRun, err error) {
	err = c.call(ctx, "GET", "/order/run", url.Values{"id": {id}, "wait": {strconv.FormatBool(wait)}}, nil, &r)
	return r, err
}

// ActOnOrder implements Orders.
func (c *Client) ActOnOrder(ctx context.Context, a OrderAct) (done OrderActed, err error) {
	err = c.call(ctx, "POST", "/order/act", nil, a, &done)
	return done, err
}
