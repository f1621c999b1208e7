// Package library declares the standard library of Sage as a table, so that the checker, the
// evaluator and editors agree about it.
package library

import "strings"

// Function is a function of the library or of a tool. Functions with the same name differ in the
// number of their parameters or in the type of the first one.
type Function struct {
	// Signature is the declaration from the name on: take<T>(xs: List<T>, n: Int) -> List<T>. A
	// function that takes a function which can fail can fail as well.
	Signature string
	Doc       string // one sentence
	Changes   bool   // it changes its first argument, a variable or belief
	Test      bool   // it can be used only in tests
}

func fn(signature, doc string) Function { return Function{Signature: signature, Doc: doc} }

func changing(f Function) Function {
	f.Changes = true
	return f
}

// Name returns the name of the function.
func (f *Function) Name() string {
	name, _, _ := strings.Cut(f.Signature, "(")
	name, _, _ = strings.Cut(name, "<")
	return name
}

// Constant is a constant of the library.
type Constant struct {
	Name  string
	Value any // int64 or float64
	Doc   string
}

// Constants returns the constants.
func Constants() []Constant {
	return []Constant{
		{"PI", 3.141592653589793, "The ratio of a circle's circumference to its diameter."},
		{"E", 2.718281828459045, "The base of the natural logarithm."},
		{"MS_PER_SECOND", int64(1000), "Milliseconds in a second."},
		{"MS_PER_MINUTE", int64(60_000), "Milliseconds in a minute."},
		{"MS_PER_HOUR", int64(3_600_000), "Milliseconds in an hour."},
		{"MS_PER_DAY", int64(86_400_000), "Milliseconds in a day."},
	}
}

// Type is a record or an enum of the language.
type Type struct {
	Declaration string // in the syntax of a program
	Doc         string
}

// Types returns the records and enums that the language declares.
func Types() []Type {
	return []Type{
		{"enum Option<T> { Some(T), None }", "A value that may be missing."},
		{"enum Result<T, E> { Ok(T), Err(E) }", "A value, or the error why there is none."},
		{"enum ErrorKind { Llm, Agent, Runtime, Tool, User, Protocol, Network, Timeout }",
			"The source of an error."},
		{"record Error { message: String, kind: ErrorKind }", "An error that a program can catch."},
		{"record HttpResponse { status: Int, body: String, headers: Map<String, String> }",
			"A response of Http. Header names are in lower case."},
		{"record ShellResult { exit_code: Int, stdout: String, stderr: String }",
			"The result of a command that Shell ran."},
		{"record DbRow { columns: List<String>, values: List<String> }", "A row of a query result of Database."},
	}
}

// Tool is a group of functions that an agent can call after use Name.
type Tool struct {
	Name      string
	Doc       string
	Functions []Function
}

// Tools returns the tools.
func Tools() []Tool {
	return []Tool{
		{"Http", "HTTP requests.", []Function{
			fn("get(url: String) -> HttpResponse fails", "Makes a GET request."),
			fn("get(url: String, headers: Map<String, String>) -> HttpResponse fails",
				"Makes a GET request with headers."),
			fn("post(url: String, body: String) -> HttpResponse fails", "Makes a POST request with a body."),
			fn("post(url: String, body: String, headers: Map<String, String>) -> HttpResponse fails",
				"Makes a POST request with a body and headers."),
			fn("put(url: String, body: String) -> HttpResponse fails", "Makes a PUT request with a body."),
			fn("put(url: String, body: String, headers: Map<String, String>) -> HttpResponse fails",
				"Makes a PUT request with a body and headers."),
			fn("delete(url: String) -> HttpResponse fails", "Makes a DELETE request."),
			fn("delete(url: String, headers: Map<String, String>) -> HttpResponse fails",
				"Makes a DELETE request with headers."),
		}},
		{"Fs", "Files in the directory of the program.", []Function{
			fn("read(path: String) -> String fails", "The content of a file."),
			fn("write(path: String, content: String) -> Unit fails",
				"Replaces the content of a file. The file and its directories are created if they are missing."),
			fn("append(path: String, content: String) -> Unit fails",
				"Appends to a file, which is created if it is missing."),
			fn("exists(path: String) -> Bool fails", "Whether a file or directory exists."),
			fn("list(path: String) -> List<String> fails", "The names in a directory, sorted."),
			fn("delete(path: String) -> Unit fails", "Deletes a file or an empty directory."),
			fn("mkdir(path: String) -> Unit fails", "Creates a directory and its parents."),
		}},
		{"Shell", "Commands that run without a shell.", []Function{
			fn("run(command: String) -> ShellResult fails",
				"Runs a command line of plain words separated by spaces."),
			fn("run(command: List<String>) -> ShellResult fails", "Runs a program with arguments."),
		}},
		{"Database", "One SQLite database.", []Function{
			fn("query(sql: String) -> List<DbRow> fails", "The rows that a statement returns."),
			fn("query<T>(sql: String, args: List<T>) -> List<DbRow> fails",
				"The rows that a statement returns, with values for its ? placeholders."),
			fn("execute(sql: String) -> Int fails",
				"Runs statements and returns the number of rows that the last one changed."),
			fn("execute<T>(sql: String, args: List<T>) -> Int fails",
				"Runs a statement with values for its ? placeholders and returns the number of rows that it changed."),
		}},
	}
}
