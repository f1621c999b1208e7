package outcome

import (
	"fmt"
	"strings"
)

// Obstacle describes what prevented an attempt from completing. The kinds make frequent obstacles
// visible. Which other fields are needed depends on Kind.
type Obstacle struct {
	Kind           ObstacleKind `json:"kind"`
	TaskID         string       `json:"task_id,omitempty"`
	Reason         string       `json:"reason,omitempty"`
	Description    string       `json:"description,omitempty"`
	Model          string       `json:"model,omitempty"`
	ErrorClass     string       `json:"error_class,omitempty"`
	Service        string       `json:"service,omitempty"`
	EstimatedFiles int          `json:"estimated_files,omitempty"`
	MaxFiles       int          `json:"max_files,omitempty"`
}

// ObstacleKind is the kind of an Obstacle.
type ObstacleKind string

const (
	MissingPrerequisite ObstacleKind = "missing_prerequisite" // another task has to be done first: TaskID, Reason
	// the code base does not support it yet: Description
	ArchitecturalGap   ObstacleKind = "architectural_gap"
	ModelLimitation    ObstacleKind = "model_limitation"    // a model gave no valid answer: Model, ErrorClass
	ExternalDependency ObstacleKind = "external_dependency" // an external service is down or missing: Service
	ScopeTooLarge      ObstacleKind = "scope_too_large"     // it must be divided: EstimatedFiles, MaxFiles
	OtherObstacle      ObstacleKind = "other"               // Description
)

// These kinds are read from how a run of a language model has ended. All need a Description; Service
// may name the account.
const (
	UsageLimit       ObstacleKind = "usage_limit"       // the plan or quota is used up until it resets
	RateLimit        ObstacleKind = "rate_limit"        // too many requests at the moment
	Authentication   ObstacleKind = "authentication"    // the key or login is not accepted
	Billing          ObstacleKind = "billing"           // no money or credits are left
	ContextFull      ObstacleKind = "context_full"      // the conversation no longer fits into the model
	Refused          ObstacleKind = "refused"           // the model or its safety filter declined
	Overloaded       ObstacleKind = "overloaded"        // the server of the model failed or had no capacity
	Network          ObstacleKind = "network"           // the connection failed, or the answer was cut off or broken
	PermissionDenied ObstacleKind = "permission_denied" // a tool was needed that the agent may not use
	Loop             ObstacleKind = "loop"              // the model repeated itself
	Budget           ObstacleKind = "budget"            // tokens, money, turns or tries are used up
	Timeout          ObstacleKind = "timeout"           // it was silent, or ran, for too long
	SessionLost      ObstacleKind = "session_lost"      // the session to resume does not exist
	Configuration    ObstacleKind = "configuration"     // the command line cannot work as it is set up
	Crash            ObstacleKind = "crash"             // it ended without saying why
)

// These kinds are found by what checks the work of an attempt. All need a Description.
const (
	VerificationFailed ObstacleKind = "verification_failed" // tests or other checks fail
	SchemaMismatch     ObstacleKind = "schema_mismatch"     // an answer does not have the form that was asked for
	MergeConflict      ObstacleKind = "merge_conflict"      // the change does not fit what others have changed
	GuardDenied        ObstacleKind = "guard_denied"        // the change is not allowed
	TestsWeakened      ObstacleKind = "tests_weakened"      // the change makes tests weaker
)

// ObstacleKinds returns all kinds.
func ObstacleKinds() []ObstacleKind {
	return []ObstacleKind{MissingPrerequisite, ArchitecturalGap, ModelLimitation, ExternalDependency, ScopeTooLarge,
		UsageLimit, RateLimit, Authentication, Billing, ContextFull, Refused, Overloaded, Network, PermissionDenied,
		Loop, Budget, Timeout, SessionLost, Configuration, Crash, VerificationFailed, SchemaMismatch, MergeConflict,
		GuardDenied, TestsWeakened, OtherObstacle}
}

// Outside reports whether the obstacle is neither in the work nor in the one who has tried it: others would have met
// it, too.
func (k ObstacleKind) Outside() bool {
	switch k {
	case UsageLimit, RateLimit, Authentication, Billing, Overloaded, Network:
		return true
	}
	return false
}

// check adds the fields that the kind lacks to an error.
func (o Obstacle) check(e *Error) {
	require := func(ok bool, field string) { e.require(ok, "context.obstacle."+field) }
	switch o.Kind {
	case MissingPrerequisite:
		require(notBlank(o.TaskID), "task_id")
		require(notBlank(o.Reason), "reason")
	case ArchitecturalGap, OtherObstacle, UsageLimit, RateLimit, Authentication, Billing, ContextFull, Refused,
		Overloaded, Network, PermissionDenied, Loop, Budget, Timeout, SessionLost, Configuration, Crash,
		VerificationFailed, SchemaMismatch, MergeConflict, GuardDenied, TestsWeakened:
		require(notBlank(o.Description), "description")
	case ModelLimitation:
		require(notBlank(o.Model), "model")
		require(notBlank(o.ErrorClass), "error_class")
	case ExternalDependency:
		require(notBlank(o.Service), "service")
	case ScopeTooLarge:
		require(o.EstimatedFiles != 0, "estimated_files")
		require(o.MaxFiles != 0, "max_files")
	default:
		addUnknown(e, "context.obstacle.kind", o.Kind, ObstacleKinds())
	}
	if o.EstimatedFiles < 0 || o.MaxFiles < 0 {
		e.addWrong("context.obstacle has a negative number of files")
	}
}

// String returns the obstacle in words.
func (o Obstacle) String() string {
	var what string
	switch o.Kind {
	case MissingPrerequisite:
		what = fmt.Sprintf("needs %s first: %s", o.TaskID, o.Reason)
	case ModelLimitation:
		what = fmt.Sprintf("%s: %s", o.Model, o.ErrorClass)
	case ExternalDependency:
		what = o.Service
		if o.Description != "" {
			what += ": " + o.Description
		}
	case ScopeTooLarge:
		what = fmt.Sprintf("%d files, at most %d", o.EstimatedFiles, o.MaxFiles)
	default:
		what = o.Description
	}
	if o.Kind == OtherObstacle {
		return what
	}
	return strings.ReplaceAll(string(o.Kind), "_", " ") + ": " + what
}

// ParseObstacle parses the text of a person or a model. It is a JSON object such as
// {"kind":"external_dependency","service":"the registry"}, or plain text, which makes an obstacle
// of the kind "other". New checks it.
func ParseObstacle(text string) (Obstacle, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return Obstacle{Kind: OtherObstacle, Description: text}, nil
	}
	var o Obstacle
	if err := decodeStrict([]byte(text), &o); err != nil {
		return Obstacle{}, fmt.Errorf("obstacle: %w", err)
	}
	return o, nil
}
