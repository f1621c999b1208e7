package pool

import "time"

// Info is a pool as the API shows it: how many instances it has and wants.
type Info struct {
	_         struct{} `schema:"Pool" doc:"How many instances a pool has and wants."`
	Size      int      `json:"size" minimum:"0" doc:"How many there should be."`
	Instances int      `json:"instances" minimum:"0" doc:"How many live, those that are to finish among them."`
	Draining  int      `json:"draining" minimum:"0" doc:"How many are to finish."`
	Min       int      `json:"min" minimum:"0" doc:"How many there are at least."`
	Max       int      `json:"max" minimum:"0" doc:"How many there may be."`
	Answer    int      `json:"answer" doc:"The last good answer of the check; without meaning unless it has answered."`
	Answered  bool     `json:"answered" doc:"The check has given a good answer."`
	// CheckedAt is when the last check ended, Error why it has given no answer.
	CheckedAt *time.Time `json:"checked_at,omitempty" doc:"When the last check ended."`
	Error     string     `json:"error,omitempty" doc:"Why the last check has given no answer; what the last good one said holds."`
	Checking  bool       `json:"checking" doc:"A check runs."`
	Booting   bool       `json:"booting" doc:"on_boot runs, and nothing is started before its end."`
	Retired   bool       `json:"retired" doc:"It is no longer in the file: its instances may finish, and it ends with the last one."`
}

// At is a pool and where it is.
type At struct {
	_    struct{} `schema:"PoolAt" doc:"A pool and where it is."`
	Path string   `json:"path" doc:"Of the supervisor that is the pool."`
	Pool Info     `json:"pool"`
}
