package check

// The codes of semantic errors and warnings.
const (
	CodeName        = "E010" // nothing has this name here
	CodeType        = "E011" // another type is expected
	CodeArguments   = "E012" // given too many or too few values
	CodeUnhandled   = "E013" // can fail, and nothing says what then
	CodeNoFails     = "E014" // fails in what cannot
	CodeCatch       = "E015" // catch gives another type than what it stands for
	CodeNoHandler   = "E016" // fails in an agent without on error
	CodeYieldAtEnd  = "E017" // yield in on resting
	CodeDuplicate   = "E018" // declared twice
	CodeModule      = "E019" // a module that cannot be found or read
	CodePrivate     = "E020" // not pub
	CodeOperator    = "E021" // an operator on what it is not for
	CodeCall        = "E022" // called, and no function
	CodeField       = "E023" // no such field, or one that is missing
	CodeExhaustive  = "E024" // a match that does not cover all
	CodeOutside     = "E026" // break, continue or return where there is nothing to leave
	CodeAssign      = "E027" // cannot be assigned to
	CodeTupleLength = "E028" // a tuple of another length
	CodeSelf        = "E029" // self outside of an agent
	CodeRefutable   = "E030" // a pattern that does not match all, where all must match
	CodeTypeName    = "E031" // no type, or one with other type arguments
	CodeInfinite    = "E032" // a record that contains itself
	CodeConstCycle  = "E033" // a constant that is made of itself
	CodeTupleIndex  = "E034" // a tuple has no such element
	CodeIterate     = "E035" // for over what has no elements
	CodeToolFunc    = "E036" // a tool has no such function
	CodeHandle      = "E037" // await or send to what is no agent
	CodeToolUse     = "E038" // a tool that the agent does not use
	CodeUnknownType = "E041" // a type that cannot be found out
	CodeUnsupported = "E042" // a construct that is not supported
	CodeEntry       = "E043" // what is run cannot be
	CodeBelief      = "E044" // an agent has no such belief
	CodeMissing     = "E045" // a belief that is not given
	CodeEvent       = "E047" // a handler of an agent that does not fit
	CodeConst       = "E048" // a constant that is not constant
	CodeNoTuple     = "E049" // x.0 of what is no tuple
	CodeTestOnly    = "E050" // stands only in tests
	CodePersistent  = "E052" // a belief that cannot be kept
	CodeCheckpoint  = "E053" // checkpoint outside of an agent
	CodeTestName    = "E055" // two tests of one name
	CodeMockDivine  = "E056" // mock divine outside of a test
	CodeMockTool    = "E057" // mock tool outside of a test
	CodeFail        = "E058" // fail with what is no text
	CodeMessage     = "E059" // a message of an agent that takes none
	CodeNoChildren  = "E060"
	CodeNoChild     = "E061" // a child that does not exist
	CodeChildBelief = "E062" // a belief of a child that is missing
	CodeDepth       = "E063" // supervisors nested too deep
	CodeTwice       = "E064" // a setting, a belief or a process twice
	CodeSetting     = "E065" // a strategy or a restart policy that is missing or unknown
	CodeCycle       = "E067" // a supervisor below itself
	CodeYield       = "E090" // yield where there is nothing to yield
	CodeReceive     = "E091" // receive where no message can be waited for
	CodeTooLarge    = "E092" // a type with too many parts

	CodeUnreachable = "W001" // an arm or a statement that is never reached
	CodeCannotFail  = "W003" // try or catch of what cannot fail
	CodeForgets     = "W004" // Permanent without persistent beliefs
	CodeNothingKept = "W006" // on waking without persistent beliefs
	CodeUnnamed     = "W007" // children of one kind without names that keep beliefs
	CodeNoShell     = "W008" // a command line that needs a shell

	CodeUnusedBelief = "W009" // a belief that its agent never mentions
	CodeUnused       = "W010" // a value that nothing is done with
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
