package syntax

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is a kind of token.
type Kind uint8

// The kinds of tokens. Keywords from Agent on are only reserved where they have a meaning.
// Everywhere else they are names (see IsName).
const (
	EOF Kind = iota
	Invalid

	Name
	Int
	Float
	String         // '…', or "…" without interpolation
	TemplateHead   // "…{
	TemplateMiddle // }…{
	TemplateTail   // }…"

	operatorsBegin
	LBrace
	RBrace
	LParen
	RParen
	LBracket
	RBracket
	Comma
	Colon
	ColonColon
	Dot
	Semicolon
	Arrow    // ->
	FatArrow // =>
	At
	Hash
	Pipe

	Assign
	AddAssign
	SubAssign
	MulAssign
	DivAssign
	RemAssign
	ConcatAssign

	OrOr
	AndAnd
	Equal
	NotEqual
	Less
	Greater
	LessEqual
	GreaterEqual
	Concat
	Add
	Sub
	Mul
	Div
	Rem
	Not
	operatorsEnd

	Await
	Break
	Catch
	Checkpoint
	Continue
	Divine
	Else
	Fail
	False
	Fn
	For
	If
	In
	Let
	Loop
	Match
	Pub
	Receive
	Retry
	Return
	Self
	Send
	SpanKeyword
	Summon
	Trace
	True
	Try
	Use
	While
	Yield

	softBegin
	Agent
	As
	Children
	Const
	Enum
	Extern
	Fails
	Follows
	HandlerKeyword
	Handles
	Infer
	Message
	Mock
	Mod
	On
	Protocol
	Receives
	Record
	Reply
	Restart
	Run
	Supervisor
	Test
	Timeout
	Tool
	Uses
	kinds
)

var spellings = [kinds]string{
	EOF: "end of file", Invalid: "invalid character", Name: "name", Int: "number", Float: "number",
	String: "string", TemplateHead: "string",
	TemplateMiddle: "rest of the string", TemplateTail: "rest of the string",

	LBrace: "{", RBrace: "}", LParen: "(", RParen: ")", LBracket: "[", RBracket: "]",
	Comma: ",", Colon: ":", ColonColon: "::", Dot: ".", Semicolon: ";", Arrow: "->", FatArrow: "=>",
	At: "@", Hash: "#", Pipe: "|",

	Assign: "=", AddAssign: "+=", SubAssign: "-=", MulAssign: "*=", DivAssign: "/=", RemAssign: "%=",
	ConcatAssign: "++=",

	OrOr: "||", AndAnd: "&&", Equal: "==", NotEqual: "!=", Less: "<", Greater: ">",
	LessEqual: "<=", GreaterEqual: ">=", Concat: "++", Add: "+", Sub: "-", Mul: "*", Div: "/",
	Rem: "%", Not: "!",

	Await: "await", Break: "break", Catch: "catch", Checkpoint: "checkpoint", Continue: "continue",
	Divine: "divine", Else: "else", Fail: "fail", False: "false", Fn: "fn", For: "for", If: "if",
	In: "in", Let: "let", Loop: "loop", Match: "match", Pub: "pub", Receive: "receive",
	Retry: "retry", Return: "return", Self: "self", Send: "send", SpanKeyword: "span",
	Summon: "summon", Trace: "trace", True: "true", Try: "try", Use: "use", While: "while",
	Yield: "yield",

	Agent: "agent", As: "as", Children: "children", Const: "const", Enum: "enum", Extern: "extern",
	Fails: "fails", Follows: "follows", HandlerKeyword: "handler", Handles: "handles", Infer: "infer",
	Message: "message", Mock: "mock", Mod: "mod", On: "on", Protocol: "protocol",
	Receives: "receives", Record: "record", Reply: "reply", Restart: "restart", Run: "run",
	Supervisor: "supervisor", Test: "test", Timeout: "timeout", Tool: "tool", Uses: "uses",
}

// String returns the spelling of the token, or a description.
func (k Kind) String() string {
	if k < kinds && spellings[k] != "" {
		return spellings[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// IsName reports whether a token of this kind can be the name of a variable, a function or a field.
func (k Kind) IsName() bool { return k == Name || k > softBegin }

// IsWord reports whether a token of this kind consists of letters, so that it can follow a dot or
// precede the colon of a field.
func (k Kind) IsWord() bool { return k == Name || k > operatorsEnd && k != softBegin }

// IsOperator reports whether a token of this kind is punctuation.
func (k Kind) IsOperator() bool { return k > operatorsBegin && k < operatorsEnd }

// words maps the keywords to their kinds.
var words = func() map[string]Kind {
	m := map[string]Kind{}
	for k := operatorsEnd + 1; k < kinds; k++ {
		if k != softBegin {
			m[spellings[k]] = k
		}
	}
	return m
}()

// Lookup returns the kind of a word: a keyword, or Name.
func Lookup(word string) Kind {
	if word[0] < 'a' || len(word) < 2 || len(word) > len("checkpoint") {
		return Name
	}
	if k, ok := words[word]; ok {
		return k
	}
	return Name
}

// operators holds the kinds of operators by their first byte, the longest first.
var operators = func() (by [utf8.RuneSelf][]Kind) {
	for k := operatorsBegin + 1; k < operatorsEnd; k++ {
		c := spellings[k][0]
		by[c] = append(by[c], k)
		slices.SortFunc(by[c], func(a, b Kind) int { return len(spellings[b]) - len(spellings[a]) })
	}
	return by
}()

// Operator returns the kind of the longest operator at the start of text, or Invalid.
func Operator(text string) Kind {
	if text != "" && text[0] < utf8.RuneSelf {
		for _, k := range operators[text[0]] {
			if strings.HasPrefix(text, spellings[k]) {
				return k
			}
		}
	}
	return Invalid
}

// Token is a token and its offsets in the text.
type Token struct {
	Kind       Kind
	Start, End int32
}

// Precedence returns the precedence of a binary operator, 0 for other tokens.
func Precedence(k Kind) int {
	switch k {
	case OrOr:
		return 1
	case AndAnd:
		return 2
	case Equal, NotEqual:
		return 3
	case Less, Greater, LessEqual, GreaterEqual:
		return 4
	case Concat:
		return 5
	case Add, Sub:
		return 6
	case Mul, Div, Rem:
		return 7
	}
	return 0
}
