package syntax

// The codes of syntax errors.
const (
	CodeUnexpected = "E001" // unexpected token
	CodeCharacter  = "E002" // invalid character or encoding
	CodeString     = "E003" // unterminated string or unknown escape
	CodeNumber     = "E004" // malformed or too large number
	CodeDepth      = "E005" // nesting too deep
	CodeMisplaced  = "E006" // misplaced construct
	CodeForeign    = "E007" // word of another language or of an earlier Sage
	CodeTarget     = "E008" // not assignable
	CodeFormat     = "E009" // bug in the formatter
)
