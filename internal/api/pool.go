package api

import "time"

// Pool is how many instances a pool has and wants.
type Pool struct {
	Size      int `json:"size"`      // how many there should be
	Instances int `json:"instances"` // how many live, those that are to finish among them
	Draining  int `json:"draining"`  // how many are to finish
	Min       int `json:"min"`
	Max       int `json:"max"`
	// Answer is the last good answer of the check; without meaning unless Answered.
	Answer   int  `json:"answer"`
	Answered bool `json:"answered"`
	// CheckedAt is when the last check ended, Error why it has given no answer.
	CheckedAt *time.Time `json:"checked_at,omitempty"`
	Error     string     `json:"error,omitempty"`
	Checking  bool       `json:"checking"` // a check runs
	Booting   bool       `json:"booting"`  // on_boot runs, and nothing is started before its end
	// it is no longer in the file: its instances may finish, and it ends with the last one
	Retired bool `json:"retired"`
}

// PoolAt is a pool and where it is.
type PoolAt struct {
	Path string `json:"path"`
	Pool Pool   `json:"pool"`
}
