package library

// Functions returns the functions in the order of the reference.
func Functions() []Function {
	var all []Function
	for _, s := range sections() {
		all = append(all, s.functions...)
	}
	for _, f := range tests() {
		f.Test = true
		all = append(all, f)
	}
	return all
}

// section is a section of the reference.
type section struct {
	title     string
	functions []Function
}

func sections() []section {
	return []section{
		{"Output and input", output()}, {"Text", texts()}, {"Numbers", numbers()}, {"Lists", lists()},
		{"Maps", mapFunctions()}, {"Options and results", options()}, {"JSON", jsonFunctions()}, {"Time", times()},
		{"Files", files()}, {"Environment", environ()},
	}
}

func output() []Function {
	return []Function{
		{Signature: "print<T>(value: T) -> Unit", Doc: "Writes a value and a line end to the standard output."},
		{Signature: "print_err<T>(value: T) -> Unit",
			Doc: "Writes a value and a line end to the standard error."},
		{Signature: "str<T>(value: T) -> String", Doc: "The text of a value."},
		{Signature: "read_line() -> String fails",
			Doc: "The next line of the standard input, without its line end."},
		{Signature: "read_all() -> String fails", Doc: "The rest of the standard input."},
	}
}

func texts() []Function {
	return []Function{
		{Signature: "len(s: String) -> Int", Doc: "The number of characters."},
		{Signature: "is_empty(s: String) -> Bool", Doc: "Whether the text is empty."},
		{Signature: "str_len(s: String) -> Int", Doc: "The number of characters."},
		{Signature: "join(parts: List<String>, separator: String) -> String",
			Doc: "The parts with the separator between them."},
		{Signature: "lines(s: String) -> List<String>", Doc: "The lines, without their ends."},
		{Signature: "chars(s: String) -> List<String>", Doc: "The characters."},
		{Signature: "split(s: String, separator: String) -> List<String>",
			Doc: "The parts between separators, or the characters if the separator is empty."},
		{Signature: "trim(s: String) -> String", Doc: "The text without white space at both ends."},
		{Signature: "trim_start(s: String) -> String", Doc: "The text without white space at its start."},
		{Signature: "trim_end(s: String) -> String", Doc: "The text without white space at its end."},
		{Signature: "starts_with(s: String, prefix: String) -> Bool",
			Doc: "Whether the text starts with the prefix."},
		{Signature: "ends_with(s: String, suffix: String) -> Bool",
			Doc: "Whether the text ends with the suffix."},
		{Signature: "str_contains(s: String, part: String) -> Bool", Doc: "Whether the text contains the part."},
		{Signature: "contains(s: String, part: String) -> Bool", Doc: "Whether the text contains the part."},
		{Signature: "replace(s: String, old: String, new: String) -> String",
			Doc: "The text with every old replaced by new."},
		{Signature: "replace_first(s: String, old: String, new: String) -> String",
			Doc: "The text with the first old replaced by new."},
		{Signature: "to_upper(s: String) -> String", Doc: "The text in upper case."},
		{Signature: "to_lower(s: String) -> String", Doc: "The text in lower case."},
		{Signature: "chr(code: Int) -> String",
			Doc: "The character with this Unicode code point, or an empty text if there is none."},
		{Signature: "str_slice(s: String, start: Int, end: Int) -> String",
			Doc: "The characters from index start up to, but not including, end. Indices outside the text are clamped."},
		{Signature: "slice(s: String, start: Int, end: Int) -> String",
			Doc: "The characters from index start up to, but not including, end. Indices outside the text are clamped."},
		{Signature: "str_index_of(s: String, part: String) -> Option<Int>",
			Doc: "The index of the first character of the part, if the text contains it."},
		{Signature: "index_of(s: String, part: String) -> Option<Int>",
			Doc: "The index of the first character of the part, if the text contains it."},
		{Signature: "str_repeat(s: String, n: Int) -> String", Doc: "The text repeated n times."},
		{Signature: "repeat(s: String, n: Int) -> String", Doc: "The text repeated n times."},
		{Signature: "str_pad_start(s: String, width: Int, fill: String) -> String",
			Doc: "The text padded at the start with fill to width characters."},
		{Signature: "str_pad_end(s: String, width: Int, fill: String) -> String",
			Doc: "The text padded at the end with fill to width characters."},
		{Signature: "str_truncate(s: String, width: Int) -> String",
			Doc: "The text cut to width characters. If anything is cut, the last three are dots."},
		{Signature: "int_to_str(n: Int) -> String", Doc: "The number as text."},
		{Signature: "float_to_str(x: Float) -> String", Doc: "The number as text."},
		{Signature: "bool_to_str(b: Bool) -> String", Doc: "The text true or false."},
		{Signature: "parse_int(s: String) -> Result<Int, String>",
			Doc: "The whole number in a text. White space around it is ignored."},
		{Signature: "parse_float(s: String) -> Result<Float, String>",
			Doc: "The number in a text. White space around it is ignored."},
		{Signature: "parse_bool(s: String) -> Result<Bool, String>",
			Doc: "The Bool in the text true or false. White space around it is ignored."},
	}
}

func numbers() []Function {
	return []Function{
		{Signature: "abs(n: Int) -> Int", Doc: "The absolute value."},
		{Signature: "abs(x: Float) -> Float", Doc: "The absolute value."},
		{Signature: "abs_float(x: Float) -> Float", Doc: "The absolute value."},
		{Signature: "min(a: Int, b: Int) -> Int", Doc: "The smaller number."},
		{Signature: "min(a: Float, b: Float) -> Float", Doc: "The smaller number."},
		{Signature: "max(a: Int, b: Int) -> Int", Doc: "The larger number."},
		{Signature: "max(a: Float, b: Float) -> Float", Doc: "The larger number."},
		{Signature: "min_float(a: Float, b: Float) -> Float", Doc: "The smaller number."},
		{Signature: "max_float(a: Float, b: Float) -> Float", Doc: "The larger number."},
		{Signature: "clamp(n: Int, low: Int, high: Int) -> Int",
			Doc: "The number from low to high that is closest to n."},
		{Signature: "clamp(x: Float, low: Float, high: Float) -> Float",
			Doc: "The number from low to high that is closest to x."},
		{Signature: "clamp_float(x: Float, low: Float, high: Float) -> Float",
			Doc: "The number from low to high that is closest to x."},
		{Signature: "floor(x: Float) -> Int", Doc: "The number rounded down."},
		{Signature: "ceil(x: Float) -> Int", Doc: "The number rounded up."},
		{Signature: "round(x: Float) -> Int",
			Doc: "The nearest whole number. Halves are rounded away from zero."},
		{Signature: "floor_float(x: Float) -> Float", Doc: "The number rounded down, as a Float."},
		{Signature: "ceil_float(x: Float) -> Float", Doc: "The number rounded up, as a Float."},
		{Signature: "pow(base: Int, exponent: Int) -> Int", Doc: "The base to the power of the exponent."},
		{Signature: "pow(base: Float, exponent: Float) -> Float", Doc: "The base to the power of the exponent."},
		{Signature: "pow_float(base: Float, exponent: Float) -> Float",
			Doc: "The base to the power of the exponent."},
		{Signature: "sqrt(x: Float) -> Float", Doc: "The square root."},
		{Signature: "log(x: Float) -> Float", Doc: "The natural logarithm."},
		{Signature: "log2(x: Float) -> Float", Doc: "The logarithm to the base 2."},
		{Signature: "log10(x: Float) -> Float", Doc: "The logarithm to the base 10."},
		{Signature: "int_to_float(n: Int) -> Float", Doc: "The number as a Float."},
		{Signature: "float_to_int(x: Float) -> Int", Doc: "The number without its fraction."},
	}
}

func lists() []Function {
	return []Function{
		{Signature: "len<T>(xs: List<T>) -> Int", Doc: "The number of elements."},
		{Signature: "is_empty<T>(xs: List<T>) -> Bool", Doc: "Whether the list is empty."},
		{Signature: "range(start: Int, end: Int) -> List<Int>",
			Doc: "The numbers from start up to, but not including, end."},
		{Signature: "range_step(start: Int, end: Int, step: Int) -> List<Int>",
			Doc: "The numbers from start up or down to, but not including, end, in steps of step."},
		{Signature: "first<T>(xs: List<T>) -> Option<T>", Doc: "The first element, if there is one."},
		{Signature: "last<T>(xs: List<T>) -> Option<T>", Doc: "The last element, if there is one."},
		{Signature: "get<T>(xs: List<T>, index: Int) -> Option<T>",
			Doc: "The element at an index, counted from 0, if there is one."},
		{Signature: "push<T>(xs: List<T>, x: T) -> List<T>", Doc: "The list with x appended."},
		{Signature: "pop<T>(xs: List<T>) -> Option<T>", Doc: "The last element, if there is one."},
		{Signature: "concat<T>(xs: List<T>, ys: List<T>) -> List<T>", Doc: "The elements of both lists."},
		{Signature: "concat(a: String, b: String) -> String", Doc: "The two texts joined."},
		{Signature: "list_contains<T>(xs: List<T>, x: T) -> Bool", Doc: "Whether the list contains x."},
		{Signature: "contains<T>(xs: List<T>, x: T) -> Bool", Doc: "Whether the list contains x."},
		{Signature: "sort(xs: List<Int>) -> List<Int>", Doc: "The elements in ascending order."},
		{Signature: "sort(xs: List<Float>) -> List<Float>", Doc: "The elements in ascending order."},
		{Signature: "sort(xs: List<String>) -> List<String>", Doc: "The elements in ascending order."},
		{Signature: "sort_by<T>(xs: List<T>, compare: Fn(T, T) -> Int) -> List<T>",
			Doc: "The elements sorted by compare, which returns a negative number if its first argument comes first."},
		{Signature: "list_slice<T>(xs: List<T>, start: Int, end: Int) -> List<T>",
			Doc: "The elements from index start up to, but not including, end. Indices outside the list are clamped."},
		{Signature: "slice<T>(xs: List<T>, start: Int, end: Int) -> List<T>",
			Doc: "The elements from index start up to, but not including, end. Indices outside the list are clamped."},
		{Signature: "chunk<T>(xs: List<T>, size: Int) -> List<List<T>>",
			Doc: "The elements in lists of this size. The last one may be shorter."},
		{Signature: "take<T>(xs: List<T>, n: Int) -> List<T>", Doc: "The first n elements."},
		{Signature: "drop<T>(xs: List<T>, n: Int) -> List<T>", Doc: "All elements except the first n."},
		{Signature: "take_while<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>",
			Doc: "The elements before the first one for which is(x) is false."},
		{Signature: "drop_while<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>",
			Doc: "The elements from the first one for which is(x) is false."},
		{Signature: "map<T, U>(xs: List<T>, f: Fn(T) -> U) -> List<U>",
			Doc: "The results of f for each element."},
		{Signature: "filter<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>",
			Doc: "The elements for which is(x) is true."},
		{Signature: "reduce<T, U>(xs: List<T>, start: U, f: Fn(U, T) -> U) -> U",
			Doc: "The result of applying f to start and the first element, then to that result and the second, and so on."},
		{Signature: "any<T>(xs: List<T>, is: Fn(T) -> Bool) -> Bool",
			Doc: "Whether is(x) is true for at least one element."},
		{Signature: "all<T>(xs: List<T>, is: Fn(T) -> Bool) -> Bool",
			Doc: "Whether is(x) is true for all elements."},
		{Signature: "find<T>(xs: List<T>, is: Fn(T) -> Bool) -> Option<T>",
			Doc: "The first element for which is(x) is true."},
		{Signature: "flat_map<T, U>(xs: List<T>, f: Fn(T) -> List<U>) -> List<U>",
			Doc: "The elements of all lists that f returns for the elements."},
		{Signature: "zip<T, U>(xs: List<T>, ys: List<U>) -> List<(T, U)>",
			Doc: "Pairs of the elements at the same index, as many as the shorter list has."},
		{Signature: "enumerate<T>(xs: List<T>) -> List<(Int, T)>",
			Doc: "Pairs of an index, counted from 0, and its element."},
		{Signature: "flatten<T>(xs: List<List<T>>) -> List<T>", Doc: "The elements of all lists."},
		{Signature: "reverse<T>(xs: List<T>) -> List<T>", Doc: "The elements in reverse order."},
		{Signature: "unique<T>(xs: List<T>) -> List<T>",
			Doc: "The elements without duplicates, in their first order."},
		{Signature: "count_where<T>(xs: List<T>, is: Fn(T) -> Bool) -> Int",
			Doc: "The number of elements for which is(x) is true."},
		{Signature: "count<T>(xs: List<T>, is: Fn(T) -> Bool) -> Int",
			Doc: "The number of elements for which is(x) is true."},
		{Signature: "sum(xs: List<Int>) -> Int", Doc: "The sum of the elements."},
		{Signature: "sum(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
		{Signature: "sum_float(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
		{Signature: "sum_floats(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
	}
}

func mapFunctions() []Function {
	return []Function{
		{Signature: "len<K, V>(m: Map<K, V>) -> Int", Doc: "The number of keys."},
		{Signature: "is_empty<K, V>(m: Map<K, V>) -> Bool", Doc: "Whether the map is empty."},
		{Signature: "get<K, V>(m: Map<K, V>, key: K) -> Option<V>",
			Doc: "The value of a key, if the map has it."},
		{Signature: "map_get<K, V>(m: Map<K, V>, key: K) -> Option<V>",
			Doc: "The value of a key, if the map has it."},
		{Signature: "map_has<K, V>(m: Map<K, V>, key: K) -> Bool", Doc: "Whether the map has a key."},
		{Signature: "map_keys<K, V>(m: Map<K, V>) -> List<K>",
			Doc: "The keys in the order in which they were first set."},
		{Signature: "map_values<K, V>(m: Map<K, V>) -> List<V>",
			Doc: "The values in the order in which their keys were first set."},
		{Signature: "map_set<K, V>(m: Map<K, V>, key: K, value: V) -> Unit",
			Doc: "Sets the value of a key of a map in a variable or belief.", Changes: true},
		{Signature: "map_delete<K, V>(m: Map<K, V>, key: K) -> Unit",
			Doc: "Removes a key from a map in a variable or belief.", Changes: true},
	}
}

func options() []Function {
	return []Function{
		{Signature: "is_some<T>(x: Option<T>) -> Bool", Doc: "Whether there is a value."},
		{Signature: "is_none<T>(x: Option<T>) -> Bool", Doc: "Whether there is no value."},
		{Signature: "unwrap<T>(x: Option<T>) -> T", Doc: "The value. The agent fails if there is none."},
		{Signature: "unwrap<T, E>(x: Result<T, E>) -> T", Doc: "The value. The agent fails if there is none."},
		{Signature: "unwrap_or<T>(x: Option<T>, other: T) -> T", Doc: "The value, or other if there is none."},
		{Signature: "unwrap_or<T, E>(x: Result<T, E>, other: T) -> T",
			Doc: "The value, or other if there is none."},
		{Signature: "unwrap_or_else<T>(x: Option<T>, f: Fn() -> T) -> T",
			Doc: "The value, or the result of f if there is none."},
		{Signature: "map_option<T, U>(x: Option<T>, f: Fn(T) -> U) -> Option<U>",
			Doc: "The result of f for the value, if there is one."},
		{Signature: "or_option<T>(x: Option<T>, y: Option<T>) -> Option<T>",
			Doc: "x if it has a value, else y."},
		{Signature: "is_ok<T, E>(x: Result<T, E>) -> Bool", Doc: "Whether there is a value."},
		{Signature: "is_err<T, E>(x: Result<T, E>) -> Bool", Doc: "Whether there is an error."},
		{Signature: "unwrap_result<T, E>(x: Result<T, E>) -> T",
			Doc: "The value. The agent fails if there is none."},
		{Signature: "unwrap_err<T, E>(x: Result<T, E>) -> E",
			Doc: "The error. The agent fails if there is none."},
		{Signature: "unwrap_or_result<T, E>(x: Result<T, E>, other: T) -> T",
			Doc: "The value, or other if there is none."},
		{Signature: "map_result<T, E, U>(x: Result<T, E>, f: Fn(T) -> U) -> Result<U, E>",
			Doc: "The result of f for the value, if there is one."},
		{Signature: "map_err<T, E, F>(x: Result<T, E>, f: Fn(E) -> F) -> Result<T, F>",
			Doc: "The result of f for the error, if there is one."},
		{Signature: "ok<T, E>(x: Result<T, E>) -> Option<T>", Doc: "The value, if there is one."},
		{Signature: "err_value<T, E>(x: Result<T, E>) -> Option<E>", Doc: "The error, if there is one."},
	}
}

func jsonFunctions() []Function {
	return []Function{
		{Signature: "json_parse(text: String) -> String fails", Doc: "The text, if it is valid JSON."},
		{Signature: "json_get(text: String, key: String) -> Option<String>",
			Doc: "A field of a JSON object as text."},
		{Signature: "json_get_int(text: String, key: String) -> Option<Int>",
			Doc: "A field of a JSON object, if it is a whole number."},
		{Signature: "json_get_float(text: String, key: String) -> Option<Float>",
			Doc: "A field of a JSON object, if it is a number."},
		{Signature: "json_get_bool(text: String, key: String) -> Option<Bool>",
			Doc: "A field of a JSON object, if it is true or false."},
		{Signature: "json_get_list(text: String, key: String) -> Option<List<String>>",
			Doc: "A field of a JSON object, if it is an array. Its elements are returned as text."},
		{Signature: "json_stringify<T>(value: T) -> String", Doc: "The JSON of a value."},
		{Signature: "json_escape(s: String) -> String",
			Doc: "The text escaped for a JSON string, without quotes."},
	}
}

func times() []Function {
	return []Function{
		{Signature: "sleep_ms(ms: Int) -> Unit", Doc: "Waits for that many milliseconds."},
		{Signature: "now_ms() -> Int", Doc: "The time in milliseconds since 1970."},
		{Signature: "now_s() -> Int", Doc: "The time in seconds since 1970."},
		{Signature: "format_timestamp(ms: Int, format: String) -> String",
			Doc: "A time in UTC, in a format such as %Y-%m-%d %H:%M:%S."},
		{Signature: "parse_timestamp(s: String, format: String) -> Int fails",
			Doc: "The time that a text gives in a format, in milliseconds since 1970."},
	}
}

func files() []Function {
	return []Function{
		{Signature: "read_file(path: String) -> String fails", Doc: "The content of a file."},
		{Signature: "write_file(path: String, content: String) -> Unit fails",
			Doc: "Replaces the content of a file, which is created if it is missing."},
		{Signature: "append_file(path: String, content: String) -> Unit fails",
			Doc: "Appends to a file, which is created if it is missing."},
		{Signature: "file_exists(path: String) -> Bool", Doc: "Whether a file or directory exists."},
		{Signature: "delete_file(path: String) -> Unit fails", Doc: "Deletes a file or an empty directory."},
		{Signature: "list_dir(path: String) -> List<String> fails", Doc: "The names in a directory, sorted."},
		{Signature: "make_dir(path: String) -> Unit fails", Doc: "Creates a directory and its parents."},
	}
}

func environ() []Function {
	return []Function{
		{Signature: "env(name: String) -> Option<String>", Doc: "An environment variable, if it is set."},
		{Signature: "env_or(name: String, other: String) -> String",
			Doc: "An environment variable, or other if it is not set."},
	}
}

func tests() []Function {
	return []Function{
		{Signature: "assert(is: Bool) -> Unit", Doc: "Fails the test if the condition is false."},
		{Signature: "assert_eq<T>(found: T, expected: T) -> Unit", Doc: "Fails the test if the values differ."},
		{Signature: "assert_neq<T>(a: T, b: T) -> Unit", Doc: "Fails the test if the values are equal."},
		{Signature: "assert_gt(a: Int, b: Int) -> Unit", Doc: "Fails the test unless a > b."},
		{Signature: "assert_gt(a: Float, b: Float) -> Unit", Doc: "Fails the test unless a > b."},
		{Signature: "assert_lt(a: Int, b: Int) -> Unit", Doc: "Fails the test unless a < b."},
		{Signature: "assert_lt(a: Float, b: Float) -> Unit", Doc: "Fails the test unless a < b."},
		{Signature: "assert_gte(a: Int, b: Int) -> Unit", Doc: "Fails the test unless a >= b."},
		{Signature: "assert_gte(a: Float, b: Float) -> Unit", Doc: "Fails the test unless a >= b."},
		{Signature: "assert_lte(a: Int, b: Int) -> Unit", Doc: "Fails the test unless a <= b."},
		{Signature: "assert_lte(a: Float, b: Float) -> Unit", Doc: "Fails the test unless a <= b."},
		{Signature: "assert_true(is: Bool) -> Unit", Doc: "Fails the test if the condition is false."},
		{Signature: "assert_false(is: Bool) -> Unit", Doc: "Fails the test if the condition is true."},
		{Signature: "assert_contains(s: String, part: String) -> Unit",
			Doc: "Fails the test unless the text contains the part."},
		{Signature: "assert_contains<T>(xs: List<T>, x: T) -> Unit",
			Doc: "Fails the test unless the list contains x."},
		{Signature: "assert_not_contains(s: String, part: String) -> Unit",
			Doc: "Fails the test if the text contains the part."},
		{Signature: "assert_not_contains<T>(xs: List<T>, x: T) -> Unit",
			Doc: "Fails the test if the list contains x."},
		{Signature: "assert_empty(s: String) -> Unit", Doc: "Fails the test unless the text is empty."},
		{Signature: "assert_empty<T>(xs: List<T>) -> Unit", Doc: "Fails the test unless the list is empty."},
		{Signature: "assert_empty<K, V>(m: Map<K, V>) -> Unit", Doc: "Fails the test unless the map is empty."},
		{Signature: "assert_not_empty(s: String) -> Unit", Doc: "Fails the test if the text is empty."},
		{Signature: "assert_not_empty<T>(xs: List<T>) -> Unit", Doc: "Fails the test if the list is empty."},
		{Signature: "assert_not_empty<K, V>(m: Map<K, V>) -> Unit", Doc: "Fails the test if the map is empty."},
		{Signature: "assert_starts_with(s: String, prefix: String) -> Unit",
			Doc: "Fails the test unless the text starts with the prefix."},
		{Signature: "assert_ends_with(s: String, suffix: String) -> Unit",
			Doc: "Fails the test unless the text ends with the suffix."},
		{Signature: "assert_len(s: String, n: Int) -> Unit",
			Doc: "Fails the test unless the text has n characters."},
		{Signature: "assert_len<T>(xs: List<T>, n: Int) -> Unit",
			Doc: "Fails the test unless the list has n elements."},
		{Signature: "assert_len<K, V>(m: Map<K, V>, n: Int) -> Unit",
			Doc: "Fails the test unless the map has n keys."},
		{Signature: "assert_empty_list<T>(xs: List<T>) -> Unit",
			Doc: "Fails the test unless the list is empty."},
		{Signature: "assert_not_empty_list<T>(xs: List<T>) -> Unit",
			Doc: "Fails the test if the list is empty."},
		{Signature: "assert_fails<T>(x: T) -> Unit", Doc: "Fails the test unless computing x fails."},
	}
}
