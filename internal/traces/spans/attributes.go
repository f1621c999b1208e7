package spans

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// GenAISchemaURL is that of the semantic conventions for generative AI whose names this file has: v0.1.0 of
// https://github.com/open-telemetry/semantic-conventions-genai. They are in development, and may change.
const GenAISchemaURL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

// Attributes of the semantic conventions. The input tokens include those of caches.
const (
	genAIOperation    = attribute.Key("gen_ai.operation.name")
	genAIAgent        = attribute.Key("gen_ai.agent.name")
	genAIProvider     = attribute.Key("gen_ai.provider.name")
	genAIModel        = attribute.Key("gen_ai.request.model")
	genAIConversation = attribute.Key("gen_ai.conversation.id")
	genAIInput        = attribute.Key("gen_ai.usage.input_tokens")
	genAICacheRead    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	genAICacheWrite   = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	genAIOutput       = attribute.Key("gen_ai.usage.output_tokens")
	errorType         = attribute.Key("error.type")

	invokeAgent = "invoke_agent" // an operation
)

// Attributes of Coppice.
const (
	keyPath        = attribute.Key("coppice.agent.path")
	keySupervisor  = attribute.Key("coppice.supervisor")
	keyIncarnation = attribute.Key("coppice.incarnation")
	keyExit        = attribute.Key("coppice.exit.kind")
	keyCode        = attribute.Key("coppice.exit.code")
	keySignal      = attribute.Key("coppice.exit.signal")
	keyDecision    = attribute.Key("coppice.decision")
	keyRule        = attribute.Key("coppice.rule")
	keyTrigger     = attribute.Key("coppice.trigger")
	keyCalls       = attribute.Key("coppice.calls")
	keyDollars     = attribute.Key("coppice.dollars")
	keyDropped     = attribute.Key("coppice.events.dropped")
	keyLink        = attribute.Key("coppice.link")
	keyTask        = attribute.Key("coppice.task.id")
	keyTaskAttempt = attribute.Key("coppice.task.attempt")
	keyTaskPool    = attribute.Key("coppice.task.pool")
	keyOutcome     = attribute.Key("coppice.task.outcome")
	keyObstacle    = attribute.Key("coppice.task.obstacle")
	keyOrder       = attribute.Key("coppice.order")
	keyRun         = attribute.Key("coppice.order.run")
	keyRunAttempt  = attribute.Key("coppice.order.attempt")
	keyRunStatus   = attribute.Key("coppice.order.status")
)

// Bounds of texts, in bytes.
const (
	maxText = 256
	maxName = 128
)

// provider returns the name by which the conventions know the provider of a command line. The command line itself is
// named where they know none.
func provider(cli string) string {
	switch cli {
	case "claude":
		return "anthropic"
	case "codex":
		return "openai"
	case "gemini":
		return "gcp.gemini"
	}
	return plaintext.OneLine(cli, maxName)
}

// attributes collects the attributes of a span. What is empty is left out.
type attributes []attribute.KeyValue

func (a *attributes) text(key attribute.Key, value string) {
	if value = plaintext.OneLine(value, maxText); value != "" {
		*a = append(*a, key.String(value))
	}
}

func (a *attributes) number(key attribute.Key, value int64) { *a = append(*a, key.Int64(value)) }

// lastSegment returns the name of the node at a path.
func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// parent returns the path of the supervisor of a node; empty if it has none.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
