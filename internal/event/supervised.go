package event

import "time"

// The data of events that supervisors cause. Events of supervisors have the same data as those of
// agents. Catalogue documents each field.
type (
	// Started is the data of AgentStarted.
	Started struct {
		Restart      bool    `json:"restart"`
		StartSeconds float64 `json:"start_seconds,omitempty"`
	}

	// Late is the data of AgentStarted of an incarnation that was noticed later.
	Late struct {
		Late bool `json:"late"`
	}

	// StartFailed is the data of AgentStartFailed.
	StartFailed struct {
		Error string `json:"error"`
		Decision
		StartSeconds float64 `json:"start_seconds,omitempty"`
	}

	// Exited is the data of AgentExited, AgentCrashed and AgentLost.
	Exited struct {
		End
		Decision
		UptimeSeconds float64 `json:"uptime_seconds"`
	}

	// Stopped is the data of AgentStopped.
	Stopped struct {
		End
		Cause
		UptimeSeconds float64 `json:"uptime_seconds,omitempty"`
		Late          bool    `json:"late,omitempty"`
	}

	// Changed is the data of AgentChanged.
	Changed struct {
		State string `json:"state"`
		Cause
	}

	// Abandoned is the data of AgentAbandoned.
	Abandoned struct {
		WaitedSeconds float64 `json:"waited_seconds"`
	}

	// Misbehaved is the data of AgentMisbehaved.
	Misbehaved struct {
		Error string `json:"error"`
	}

	// LimitReached is the data of AgentLimitReached, AgentQuarantined, AgentGaveUp and SupervisorPaused.
	LimitReached struct {
		End
		Limit string    `json:"limit"`
		Until time.Time `json:"until,omitzero"`
	}

	// Quota is the data of QuotaParked, QuotaProbing, QuotaOpened and QuotaStopped.
	Quota struct {
		Pool      string    `json:"pool"`
		State     string    `json:"state"`
		Obstacle  string    `json:"obstacle,omitempty"`
		Error     string    `json:"error,omitempty"`
		Agent     string    `json:"agent,omitempty"`
		Until     time.Time `json:"until,omitzero"`
		Reset     time.Time `json:"reset,omitzero"`
		ResetFrom string    `json:"reset_from,omitempty"`
	}

	// Switch is the data of QuotaSwitched.
	Switch struct {
		From   string `json:"from"`
		To     string `json:"to"`
		Reason string `json:"reason"`
	}

	// Notified is the data of NotifySent, and NotNotified that of NotifyFailed.
	Notified struct {
		Notify string `json:"notify"`
		Via    string `json:"via"`
		Kind   string `json:"message"`
		ID     string `json:"id"`
		Needs  int    `json:"needs"`
	}
	NotNotified struct {
		Notify   string    `json:"notify"`
		Via      string    `json:"via"`
		Error    string    `json:"error"`
		Failures int       `json:"failures"`
		RetryAt  time.Time `json:"retry_at"`
	}
	// Budget is the data of BudgetReached, BudgetRaised and BudgetOpened.
	Budget struct {
		Budget string   `json:"budget"`
		Per    string   `json:"per,omitempty"`
		Used   string   `json:"used,omitempty"`
		Raised int      `json:"raised,omitempty"`
		Agents []string `json:"agents,omitempty"`
		Tasks  []string `json:"tasks,omitempty"`
	}

	// Counted is the data of CostCounted.
	Counted struct {
		CLI     string `json:"cli,omitempty"`
		Model   string `json:"model,omitempty"`
		Session string `json:"session,omitempty"`
		Task    string `json:"task,omitempty"`
		Attempt int    `json:"attempt,omitempty"`
		Calls   int64  `json:"calls"`
		Usage   *Usage `json:"usage,omitempty"` // of all models; nil if it is not known
	}

	// Usage counts tokens, and dollars as a command line estimates them. Input is what was neither read from a
	// cache nor written to one.
	Usage struct {
		Input      int64   `json:"input"`
		CacheRead  int64   `json:"cache_read"`
		CacheWrite int64   `json:"cache_write"`
		Output     int64   `json:"output"`
		Dollars    float64 `json:"dollars"`
	}

	// Lost is the data of EventsLost.
	Lost struct {
		Count int `json:"count"`
	}

	// Cause is the data of AgentStopping and AgentReleased, and a part of others.
	Cause struct {
		Reason string `json:"reason"`
	}

	// Decision is the decision of a supervisor after an exit, with its reason.
	Decision struct {
		Decision string `json:"decision"`
		Cause
		DelaySeconds float64 `json:"delay_seconds,omitempty"`
		Attempt      int     `json:"attempt,omitempty"`
	}

	// End describes the end of an incarnation, and is the data of AgentReturned and
	// SupervisorEnded.
	End struct {
		Exit       string   `json:"exit"`
		Error      string   `json:"error,omitempty"`
		Code       *int     `json:"code,omitempty"` // of a process that was not ended by a signal
		Signal     string   `json:"signal,omitempty"`
		LastOutput []string `json:"last_output,omitempty"`
		Announced  bool     `json:"announced,omitempty"`
		StatusText string   `json:"status_text,omitempty"`
		Errno      int      `json:"errno,omitempty"`
		Late       bool     `json:"late,omitempty"`
	}
)
