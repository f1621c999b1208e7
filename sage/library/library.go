// Package library declares the standard library of Sage as a table, so that the
// checker, the evaluator and editors cannot disagree about what there is.
package library

// Function is a function of the library, or of a tool. Functions of the same
// name are told apart by the number of what they are given, then by the type of
// the first of it.
type Function struct {
	// Signature is as in a program, from the name on: take<T>(xs: List<T>, n: Int) -> List<T>.
	// One that takes a function which can fail can fail, too.
	Signature string
	Doc       string // one sentence
	Changes   bool   // it changes its first argument, which is a variable or a belief
	Test      bool   // it stands only in tests
}

// Name is the name of the function.
func (f *Function) Name() string {
	for i := range len(f.Signature) {
		if c := f.Signature[i]; c == '(' || c == '<' {
			return f.Signature[:i]
		}
	}
	return f.Signature
}

// Constant is a constant of the library.
type Constant struct {
	Name  string
	Value any // int64 or float64
	Doc   string
}

// Constants are the constants.
func Constants() []Constant {
	return []Constant{
		{"PI", 3.141592653589793, "The circumference of a circle with the diameter 1."},
		{"E", 2.718281828459045, "The base of the natural logarithm."},
		{"MS_PER_SECOND", int64(1000), "Milliseconds in a second."},
		{"MS_PER_MINUTE", int64(60_000), "Milliseconds in a minute."},
		{"MS_PER_HOUR", int64(3_600_000), "Milliseconds in an hour."},
		{"MS_PER_DAY", int64(86_400_000), "Milliseconds in a day."},
	}
}

// Type is a record or an enum of the language.
type Type struct {
	Declaration string // as in a program
	Doc         string
}

// Types are the types of the language that are records and enums like any other.
func Types() []Type {
	return []Type{
		{"enum Option<T> { Some(T), None }", "A value that may be missing."},
		{"enum Result<T, E> { Ok(T), Err(E) }", "A value, or why there is none."},
		{"enum ErrorKind { Llm, Agent, Runtime, Tool, User, Protocol, Network, Timeout }",
			"Where an error comes from."},
		{"record Error { message: String, kind: ErrorKind }", "What went wrong."},
		{"record HttpResponse { status: Int, body: String, headers: Map<String, String> }",
			"An answer of Http; the names of headers are in lower case."},
		{"record ShellResult { exit_code: Int, stdout: String, stderr: String }", "How a command of Shell ended."},
		{"record DbRow { columns: List<String>, values: List<String> }", "A row of an answer of Database."},
	}
}

// Tool is a group of functions that an agent can call after use Name.
type Tool struct {
	Name      string
	Doc       string
	Functions []Function
}

// Tools are the tools.
func Tools() []Tool {
	return []Tool{
		{"Http", "Requests over HTTP.", []Function{
			{Signature: "get(url: String) -> HttpResponse fails", Doc: "Asks for a URL."},
			{Signature: "get(url: String, headers: Map<String, String>) -> HttpResponse fails",
				Doc: "Asks for a URL with headers."},
			{Signature: "post(url: String, body: String) -> HttpResponse fails",
				Doc: "Sends a body with the method POST."},
			{Signature: "post(url: String, body: String, headers: Map<String, String>) -> HttpResponse fails",
				Doc: "Sends a body and headers with the method POST."},
			{Signature: "put(url: String, body: String) -> HttpResponse fails",
				Doc: "Sends a body with the method PUT."},
			{Signature: "put(url: String, body: String, headers: Map<String, String>) -> HttpResponse fails",
				Doc: "Sends a body and headers with the method PUT."},
			{Signature: "delete(url: String) -> HttpResponse fails", Doc: "Makes a request with the method DELETE."},
			{Signature: "delete(url: String, headers: Map<String, String>) -> HttpResponse fails",
				Doc: "Makes a request with headers and the method DELETE."},
		}},
		{"Fs", "Files below the directory of the program.", []Function{
			{Signature: "read(path: String) -> String fails", Doc: "The content of a file."},
			{Signature: "write(path: String, content: String) -> Unit fails",
				Doc: "Makes a file hold the content, with the directories it is in."},
			{Signature: "append(path: String, content: String) -> Unit fails",
				Doc: "Adds to the end of a file, which is made if there is none."},
			{Signature: "exists(path: String) -> Bool fails",
				Doc: "Whether there is a file or a directory of that name."},
			{Signature: "list(path: String) -> List<String> fails", Doc: "The names in a directory, sorted."},
			{Signature: "delete(path: String) -> Unit fails", Doc: "Removes a file or an empty directory."},
			{Signature: "mkdir(path: String) -> Unit fails", Doc: "Makes a directory and those that it is in."},
		}},
		{"Shell", "Commands, run without a shell.", []Function{
			{Signature: "run(command: String) -> ShellResult fails",
				Doc: "Runs a command of plain words with blanks between them."},
			{Signature: "run(command: List<String>) -> ShellResult fails", Doc: "Runs a program with arguments."},
		}},
		{"Database", "One SQLite database.", []Function{
			{Signature: "query(sql: String) -> List<DbRow> fails", Doc: "The rows that a statement returns."},
			{Signature: "query<T>(sql: String, args: List<T>) -> List<DbRow> fails",
				Doc: "The rows that a statement with values for its ? returns."},
			{Signature: "execute(sql: String) -> Int fails",
				Doc: "Runs statements; the number of rows that the last one changed."},
			{Signature: "execute<T>(sql: String, args: List<T>) -> Int fails",
				Doc: "Runs a statement with values for its ?; the number of rows that it changed."},
		}},
	}
}
