package daemon

import "github.com/coppice-dev/coppice/internal/api"

// services answers the API. Each part of it is served by the feature that owns it.
type services struct {
	serviceAPI
	accessAPI
	agentsAPI
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
	agentsAPI     = api.Agents
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

// services returns what the API of the controller is served by.
func (c *Controller) services() api.Daemon {
	return services{
		serviceAPI:    c,
		accessAPI:     c,
		agentsAPI:     c,
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
