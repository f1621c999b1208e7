package check

// The codes of semantic errors and warnings.
const (
	CodeName        = "E010" // unknown name
	CodeType        = "E011" // type mismatch
	CodeArguments   = "E012" // wrong number of arguments
	CodeUnhandled   = "E013" // unhandled failure
	CodeNoFails     = "E014" // failure where none is allowed
	CodeCatch       = "E015" // type of a catch block differs from its operand
	CodeNoHandler   = "E016" // failure in an agent without on error
	CodeYieldAtEnd  = "E017" // yield in on resting
	CodeDuplicate   = "E018" // duplicate declaration
	CodeModule      = "E019" // module not found or unreadable
	CodePrivate     = "E020" // private name
	CodeOperator    = "E021" // wrong operand types
	CodeCall        = "E022" // call of something that is not a function
	CodeField       = "E023" // unknown or missing field
	CodeExhaustive  = "E024" // match is not exhaustive
	CodeOutside     = "E026" // break, continue or return out of place
	CodeAssign      = "E027" // assignment to something that is not assignable
	CodeTupleLength = "E028" // wrong length of a tuple
	CodeSelf        = "E029" // self outside of an agent
	CodeRefutable   = "E030" // refutable pattern where all values must match
	CodeTypeName    = "E031" // unknown type, or wrong type arguments
	CodeInfinite    = "E032" // record that contains itself
	CodeConstCycle  = "E033" // constant that depends on itself
	CodeTupleIndex  = "E034" // unknown element of a tuple
	CodeIterate     = "E035" // for over something without elements
	CodeToolFunc    = "E036" // unknown function of a tool
	CodeHandle      = "E037" // await or send on something that is not an agent
	CodeToolUse     = "E038" // tool that the agent does not use
	CodeUnknownType = "E041" // type that cannot be inferred
	CodeUnsupported = "E042" // unsupported construct
	CodeEntry       = "E043" // invalid run declaration
	CodeBelief      = "E044" // unknown belief
	CodeMissing     = "E045" // missing belief
	CodeEvent       = "E047" // invalid handler of an agent
	CodeConst       = "E048" // value of a constant is not constant
	CodeNoTuple     = "E049" // x.0 of something that is not a tuple
	CodeTestOnly    = "E050" // only allowed in tests
	CodePersistent  = "E052" // belief that cannot be persistent
	CodeCheckpoint  = "E053" // checkpoint outside of an agent
	CodeTestName    = "E055" // duplicate test name
	CodeMockDivine  = "E056" // mock divine outside of a test
	CodeMockTool    = "E057" // mock tool outside of a test
	CodeFail        = "E058" // fail with something that is not a string
	CodeMessage     = "E059" // message to or in an agent that takes none
	CodeNoChildren  = "E060" // supervisor without children
	CodeNoChild     = "E061" // unknown child
	CodeChildBelief = "E062" // missing belief of a child
	CodeDepth       = "E063" // supervisors nested too deep
	CodeTwice       = "E064" // duplicate setting, belief or process
	CodeSetting     = "E065" // missing or unknown strategy or restart policy
	CodeCycle       = "E067" // supervisor below itself
	CodeYield       = "E090" // yield out of place
	CodeReceive     = "E091" // receive out of place
	CodeTooLarge    = "E092" // type with too many parts

	CodeUnreachable = "W001" // unreachable arm or statement
	CodeCannotFail  = "W003" // try or catch of something that cannot fail
	CodeForgets     = "W004" // Permanent without persistent beliefs
	CodeNothingKept = "W006" // on waking without persistent beliefs
	CodeUnnamed     = "W007" // unnamed children of one kind with persistent beliefs
	CodeNoShell     = "W008" // command line that needs a shell

	CodeUnusedBelief = "W009" // unused belief
	CodeUnused       = "W010" // unused value
)

const (
	// MaxDepth bounds the nesting of supervisors. The root is level 1.
	MaxDepth = 8
	// maxModules and maxModuleDepth stop programs that declare modules without end.
	maxModules     = 2000
	maxModuleDepth = 32
	// maxDiagnostics bounds the reported errors.
	maxDiagnostics = 100
)
