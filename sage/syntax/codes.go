package syntax

// The codes of syntax errors.
const (
	CodeUnexpected = "E001" // something else is expected here
	CodeCharacter  = "E002" // a character or an encoding that no program has
	CodeString     = "E003" // a string that never ends, an unknown escape
	CodeNumber     = "E004" // a number that is too large or ill-formed
	CodeDepth      = "E005" // nested too deep
	CodeMisplaced  = "E006" // right in itself, and not in this place
	CodeForeign    = "E007" // a word of another language or of an earlier Sage
	CodeTarget     = "E008" // cannot be assigned to
	CodeFormat     = "E009" // a fault of the formatter
)
