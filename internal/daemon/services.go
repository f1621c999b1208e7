package daemon

import "github.com/coppice-dev/coppice/internal/api"

// services answers the API. Each part of it is served by the feature that owns it.
type services struct {
	serviceAPI
	accessAPI
	outcomesAPI
	healthAPI
	selvesAPI
	drainsAPI
	firesAPI
	unfinishedAPI
	farewellsAPI
	patrolsAPI
	beliefsAPI
	ownBeliefsAPI
	mailAPI
	askingAPI
	tasksAPI
	ordersAPI
}

// The parts, under names that no method of theirs has.
type (
	serviceAPI    = api.Service
	accessAPI     = api.Access
	outcomesAPI   = api.Outcomes
	healthAPI     = api.Health
	selvesAPI     = api.Selves
	drainsAPI     = api.Drains
	firesAPI      = api.Fires
	unfinishedAPI = api.Unfinished
	farewellsAPI  = api.Farewells
	patrolsAPI    = api.Patrols
	beliefsAPI    = api.Beliefs
	ownBeliefsAPI = api.OwnBeliefs
	mailAPI       = api.Mail
	askingAPI     = api.Asking
	tasksAPI      = api.Tasks
	ordersAPI     = api.Orders
)

var _ api.Daemon = services{}

// server returns a server of everything that the controller answers.
func (c *Controller) server() *api.Server {
	s := api.NewServer(c, c.opts.Logger)
	api.Register(s, c.services())
	return s
}

// services returns what the API of the controller is served by.
func (c *Controller) services() api.Daemon {
	return services{
		serviceAPI:    c,
		accessAPI:     c,
		outcomesAPI:   c,
		healthAPI:     c.health,
		selvesAPI:     c,
		drainsAPI:     c.drains,
		firesAPI:      c,
		unfinishedAPI: c,
		farewellsAPI:  c,
		patrolsAPI:    c,
		beliefsAPI:    c,
		ownBeliefsAPI: c,
		mailAPI:       c,
		askingAPI:     c,
		tasksAPI:      c,
		ordersAPI:     c,
	}
}
