package library

// Functions are the functions, in the order in which they are documented.
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

// section is a part of the reference.
type section struct {
	title     string
	functions []Function
}

func sections() []section {
	return []section{
		{"Output and input", output()}, {"Text", strings()}, {"Numbers", numbers()}, {"Lists", lists()},
		{"Maps", maps()},
		{"Options and results", options()}, {"JSON", json()}, {"Time", times()}, {"Files", files()},
		{"Environment", environ()},
	}
}

func output() []Function {
	return []Function{
		{Signature: "print<T>(value: T) -> Unit", Doc: "Writes a value and a line end to the output."},
		{Signature: "print_err<T>(value: T) -> Unit", Doc: "Writes a value and a line end to the error output."},
		{Signature: "str<T>(value: T) -> String", Doc: "A value as text."},
		{Signature: "read_line() -> String fails", Doc: "The next line of the input, without its end."},
		{Signature: "read_all() -> String fails", Doc: "All that is left of the input."},
	}
}

func strings() []Function {
	return []Function{
		{Signature: "len(s: String) -> Int", Doc: "The number of characters."},
		{Signature: "is_empty(s: String) -> Bool", Doc: "Whether there is no character."},
		{Signature: "str_len(s: String) -> Int", Doc: "The number of characters."},
		{Signature: "join(parts: List<String>, separator: String) -> String",
			Doc: "The parts with the separator between them."},
		{Signature: "lines(s: String) -> List<String>", Doc: "The lines, without their ends."},
		{Signature: "chars(s: String) -> List<String>", Doc: "The characters."},
		{Signature: "split(s: String, separator: String) -> List<String>",
			Doc: "What is between the separators; the characters if the separator is empty."},
		{Signature: "trim(s: String) -> String", Doc: "The text without blanks at both ends."},
		{Signature: "trim_start(s: String) -> String", Doc: "The text without blanks at its beginning."},
		{Signature: "trim_end(s: String) -> String", Doc: "The text without blanks at its end."},
		{Signature: "starts_with(s: String, prefix: String) -> Bool", Doc: "Whether the text begins with the prefix."},
		{Signature: "ends_with(s: String, suffix: String) -> Bool", Doc: "Whether the text ends with the suffix."},
		{Signature: "str_contains(s: String, part: String) -> Bool", Doc: "Whether the part is in the text."},
		{Signature: "contains(s: String, part: String) -> Bool", Doc: "Whether the part is in the text."},
		{Signature: "replace(s: String, old: String, new: String) -> String",
			Doc: "The text with new wherever old was."},
		{Signature: "replace_first(s: String, old: String, new: String) -> String",
			Doc: "The text with new where old was first."},
		{Signature: "to_upper(s: String) -> String", Doc: "The text in capital letters."},
		{Signature: "to_lower(s: String) -> String", Doc: "The text in small letters."},
		{Signature: "chr(code: Int) -> String", Doc: "The character with this Unicode number; empty if there is none."},
		{Signature: "str_slice(s: String, start: Int, end: Int) -> String",
			Doc: "The characters from start up to but without end, as far as there are any."},
		{Signature: "slice(s: String, start: Int, end: Int) -> String",
			Doc: "The characters from start up to but without end, as far as there are any."},
		{Signature: "str_index_of(s: String, part: String) -> Option<Int>",
			Doc: "Where the part begins, in characters."},
		{Signature: "index_of(s: String, part: String) -> Option<Int>", Doc: "Where the part begins, in characters."},
		{Signature: "str_repeat(s: String, n: Int) -> String", Doc: "The text n times."},
		{Signature: "repeat(s: String, n: Int) -> String", Doc: "The text n times."},
		{Signature: "str_pad_start(s: String, width: Int, fill: String) -> String",
			Doc: "The text with fill before it, width characters long."},
		{Signature: "str_pad_end(s: String, width: Int, fill: String) -> String",
			Doc: "The text with fill behind it, width characters long."},
		{Signature: "str_truncate(s: String, width: Int) -> String",
			Doc: "The text cut to width characters, the last three of which are dots if anything is cut."},
		{Signature: "int_to_str(n: Int) -> String", Doc: "A number as text."},
		{Signature: "float_to_str(x: Float) -> String", Doc: "A number as text."},
		{Signature: "bool_to_str(b: Bool) -> String", Doc: "true or false."},
		{Signature: "parse_int(s: String) -> Result<Int, String>",
			Doc: "The whole number that a text is, with blanks around it."},
		{Signature: "parse_float(s: String) -> Result<Float, String>",
			Doc: "The number that a text is, with blanks around it."},
		{Signature: "parse_bool(s: String) -> Result<Bool, String>", Doc: "What true and false stand for."},
	}
}

func numbers() []Function {
	return []Function{
		{Signature: "abs(n: Int) -> Int", Doc: "The number without its sign."},
		{Signature: "abs(x: Float) -> Float", Doc: "The number without its sign."},
		{Signature: "abs_float(x: Float) -> Float", Doc: "The number without its sign."},
		{Signature: "min(a: Int, b: Int) -> Int", Doc: "The smaller number."},
		{Signature: "min(a: Float, b: Float) -> Float", Doc: "The smaller number."},
		{Signature: "max(a: Int, b: Int) -> Int", Doc: "The larger number."},
		{Signature: "max(a: Float, b: Float) -> Float", Doc: "The larger number."},
		{Signature: "min_float(a: Float, b: Float) -> Float", Doc: "The smaller number."},
		{Signature: "max_float(a: Float, b: Float) -> Float", Doc: "The larger number."},
		{Signature: "clamp(n: Int, low: Int, high: Int) -> Int",
			Doc: "The number from low to high that is nearest to n."},
		{Signature: "clamp(x: Float, low: Float, high: Float) -> Float",
			Doc: "The number from low to high that is nearest to x."},
		{Signature: "clamp_float(x: Float, low: Float, high: Float) -> Float",
			Doc: "The number from low to high that is nearest to x."},
		{Signature: "floor(x: Float) -> Int", Doc: "The largest whole number that is not larger."},
		{Signature: "ceil(x: Float) -> Int", Doc: "The smallest whole number that is not smaller."},
		{Signature: "round(x: Float) -> Int", Doc: "The nearest whole number; from the middle, away from zero."},
		{Signature: "floor_float(x: Float) -> Float", Doc: "The largest whole number that is not larger, as a Float."},
		{Signature: "ceil_float(x: Float) -> Float", Doc: "The smallest whole number that is not smaller, as a Float."},
		{Signature: "pow(base: Int, exponent: Int) -> Int", Doc: "The base to the power of the exponent."},
		{Signature: "pow(base: Float, exponent: Float) -> Float", Doc: "The base to the power of the exponent."},
		{Signature: "pow_float(base: Float, exponent: Float) -> Float", Doc: "The base to the power of the exponent."},
		{Signature: "sqrt(x: Float) -> Float", Doc: "The square root."},
		{Signature: "log(x: Float) -> Float", Doc: "The natural logarithm."},
		{Signature: "log2(x: Float) -> Float", Doc: "The logarithm to the base 2."},
		{Signature: "log10(x: Float) -> Float", Doc: "The logarithm to the base 10."},
		{Signature: "int_to_float(n: Int) -> Float", Doc: "The number as a Float."},
		{Signature: "float_to_int(x: Float) -> Int", Doc: "The number without what is behind the point."},
	}
}

func lists() []Function {
	return []Function{
		{Signature: "len<T>(xs: List<T>) -> Int", Doc: "The number of elements."},
		{Signature: "is_empty<T>(xs: List<T>) -> Bool", Doc: "Whether there is no element."},
		{Signature: "range(start: Int, end: Int) -> List<Int>", Doc: "The numbers from start up to but without end."},
		{Signature: "range_step(start: Int, end: Int, step: Int) -> List<Int>",
			Doc: "Every step-th number from start up, or down, to but without end."},
		{Signature: "first<T>(xs: List<T>) -> Option<T>", Doc: "The first element."},
		{Signature: "last<T>(xs: List<T>) -> Option<T>", Doc: "The last element."},
		{Signature: "get<T>(xs: List<T>, index: Int) -> Option<T>", Doc: "The element at an index, from 0."},
		{Signature: "push<T>(xs: List<T>, x: T) -> List<T>", Doc: "A list with an element more at its end."},
		{Signature: "pop<T>(xs: List<T>) -> Option<T>", Doc: "The last element."},
		{Signature: "concat<T>(xs: List<T>, ys: List<T>) -> List<T>", Doc: "The elements of both lists."},
		{Signature: "concat(a: String, b: String) -> String", Doc: "Both texts, one behind the other."},
		{Signature: "list_contains<T>(xs: List<T>, x: T) -> Bool", Doc: "Whether an element is equal to x."},
		{Signature: "contains<T>(xs: List<T>, x: T) -> Bool", Doc: "Whether an element is equal to x."},
		{Signature: "sort(xs: List<Int>) -> List<Int>", Doc: "The elements in ascending order."},
		{Signature: "sort(xs: List<Float>) -> List<Float>", Doc: "The elements in ascending order."},
		{Signature: "sort(xs: List<String>) -> List<String>", Doc: "The elements in ascending order."},
		{Signature: "sort_by<T>(xs: List<T>, compare: Fn(T, T) -> Int) -> List<T>",
			Doc: "The elements in the order of compare, which is negative where the first comes before the second."},
		{Signature: "list_slice<T>(xs: List<T>, start: Int, end: Int) -> List<T>",
			Doc: "The elements from start up to but without end, as far as there are any."},
		{Signature: "slice<T>(xs: List<T>, start: Int, end: Int) -> List<T>",
			Doc: "The elements from start up to but without end, as far as there are any."},
		{Signature: "chunk<T>(xs: List<T>, size: Int) -> List<List<T>>",
			Doc: "The elements in lists of size, the last of which may be shorter."},
		{Signature: "take<T>(xs: List<T>, n: Int) -> List<T>", Doc: "The first n elements."},
		{Signature: "drop<T>(xs: List<T>, n: Int) -> List<T>", Doc: "All but the first n elements."},
		{Signature: "take_while<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>",
			Doc: "The elements before the first of which is is false."},
		{Signature: "drop_while<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>",
			Doc: "The elements from the first of which is is false."},
		{Signature: "map<T, U>(xs: List<T>, f: Fn(T) -> U) -> List<U>", Doc: "What f makes of each element."},
		{Signature: "filter<T>(xs: List<T>, is: Fn(T) -> Bool) -> List<T>", Doc: "The elements of which is is true."},
		{Signature: "reduce<T, U>(xs: List<T>, start: U, f: Fn(U, T) -> U) -> U",
			Doc: "What f makes of start and the first element, of that and the second, and so on."},
		{Signature: "any<T>(xs: List<T>, is: Fn(T) -> Bool) -> Bool", Doc: "Whether is is true of an element."},
		{Signature: "all<T>(xs: List<T>, is: Fn(T) -> Bool) -> Bool", Doc: "Whether is is true of all elements."},
		{Signature: "find<T>(xs: List<T>, is: Fn(T) -> Bool) -> Option<T>",
			Doc: "The first element of which is is true."},
		{Signature: "flat_map<T, U>(xs: List<T>, f: Fn(T) -> List<U>) -> List<U>",
			Doc: "The elements of the lists that f makes of each element."},
		{Signature: "zip<T, U>(xs: List<T>, ys: List<U>) -> List<(T, U)>",
			Doc: "Pairs of the elements of both lists, as many as the shorter one has."},
		{Signature: "enumerate<T>(xs: List<T>) -> List<(Int, T)>",
			Doc: "Pairs of each index, from 0, and the element at it."},
		{Signature: "flatten<T>(xs: List<List<T>>) -> List<T>", Doc: "The elements of all lists."},
		{Signature: "reverse<T>(xs: List<T>) -> List<T>", Doc: "The elements from the last to the first."},
		{Signature: "unique<T>(xs: List<T>) -> List<T>", Doc: "The elements, of equal ones only the first."},
		{Signature: "count_where<T>(xs: List<T>, is: Fn(T) -> Bool) -> Int",
			Doc: "The number of elements of which is is true."},
		{Signature: "count<T>(xs: List<T>, is: Fn(T) -> Bool) -> Int",
			Doc: "The number of elements of which is is true."},
		{Signature: "sum(xs: List<Int>) -> Int", Doc: "The sum of the elements."},
		{Signature: "sum(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
		{Signature: "sum_float(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
		{Signature: "sum_floats(xs: List<Float>) -> Float", Doc: "The sum of the elements."},
	}
}

func maps() []Function {
	return []Function{
		{Signature: "len<K, V>(m: Map<K, V>) -> Int", Doc: "The number of keys."},
		{Signature: "is_empty<K, V>(m: Map<K, V>) -> Bool", Doc: "Whether there is no key."},
		{Signature: "get<K, V>(m: Map<K, V>, key: K) -> Option<V>", Doc: "The value of a key."},
		{Signature: "map_get<K, V>(m: Map<K, V>, key: K) -> Option<V>", Doc: "The value of a key."},
		{Signature: "map_has<K, V>(m: Map<K, V>, key: K) -> Bool", Doc: "Whether there is a key."},
		{Signature: "map_keys<K, V>(m: Map<K, V>) -> List<K>", Doc: "The keys, in the order in which they came."},
		{Signature: "map_values<K, V>(m: Map<K, V>) -> List<V>",
			Doc: "The values, in the order in which their keys came."},
		{Signature: "map_set<K, V>(m: Map<K, V>, key: K, value: V) -> Unit",
			Doc: "Changes the value of a key of the map in a variable or a belief.", Changes: true},
		{Signature: "map_delete<K, V>(m: Map<K, V>, key: K) -> Unit",
			Doc: "Removes a key from the map in a variable or a belief.", Changes: true},
	}
}

func options() []Function {
	return []Function{
		{Signature: "is_some<T>(x: Option<T>) -> Bool", Doc: "Whether there is a value."},
		{Signature: "is_none<T>(x: Option<T>) -> Bool", Doc: "Whether there is no value."},
		{Signature: "unwrap<T>(x: Option<T>) -> T", Doc: "The value; the agent crashes if there is none."},
		{Signature: "unwrap<T, E>(x: Result<T, E>) -> T", Doc: "The value; the agent crashes if there is none."},
		{Signature: "unwrap_or<T>(x: Option<T>, other: T) -> T", Doc: "The value, or the other if there is none."},
		{Signature: "unwrap_or<T, E>(x: Result<T, E>, other: T) -> T",
			Doc: "The value, or the other if there is none."},
		{Signature: "unwrap_or_else<T>(x: Option<T>, f: Fn() -> T) -> T",
			Doc: "The value, or what f returns if there is none."},
		{Signature: "map_option<T, U>(x: Option<T>, f: Fn(T) -> U) -> Option<U>",
			Doc: "What f makes of the value, if there is one."},
		{Signature: "or_option<T>(x: Option<T>, y: Option<T>) -> Option<T>",
			Doc: "The first, if it has a value, else the second."},
		{Signature: "is_ok<T, E>(x: Result<T, E>) -> Bool", Doc: "Whether there is a value."},
		{Signature: "is_err<T, E>(x: Result<T, E>) -> Bool", Doc: "Whether there is an error."},
		{Signature: "unwrap_result<T, E>(x: Result<T, E>) -> T", Doc: "The value; the agent crashes if there is none."},
		{Signature: "unwrap_err<T, E>(x: Result<T, E>) -> E", Doc: "The error; the agent crashes if there is none."},
		{Signature: "unwrap_or_result<T, E>(x: Result<T, E>, other: T) -> T",
			Doc: "The value, or the other if there is none."},
		{Signature: "map_result<T, E, U>(x: Result<T, E>, f: Fn(T) -> U) -> Result<U, E>",
			Doc: "What f makes of the value, if there is one."},
		{Signature: "map_err<T, E, F>(x: Result<T, E>, f: Fn(E) -> F) -> Result<T, F>",
			Doc: "What f makes of the error, if there is one."},
		{Signature: "ok<T, E>(x: Result<T, E>) -> Option<T>", Doc: "The value, if there is one."},
		{Signature: "err_value<T, E>(x: Result<T, E>) -> Option<E>", Doc: "The error, if there is one."},
	}
}

func json() []Function {
	return []Function{
		{Signature: "json_parse(text: String) -> String fails", Doc: "The text, if it is JSON."},
		{Signature: "json_get(text: String, key: String) -> Option<String>", Doc: "A field of an object as text."},
		{Signature: "json_get_int(text: String, key: String) -> Option<Int>",
			Doc: "A field of an object that is a whole number."},
		{Signature: "json_get_float(text: String, key: String) -> Option<Float>",
			Doc: "A field of an object that is a number."},
		{Signature: "json_get_bool(text: String, key: String) -> Option<Bool>",
			Doc: "A field of an object that is true or false."},
		{Signature: "json_get_list(text: String, key: String) -> Option<List<String>>",
			Doc: "A field of an object that is an array, its elements as text."},
		{Signature: "json_stringify<T>(value: T) -> String", Doc: "A value as JSON."},
		{Signature: "json_escape(s: String) -> String", Doc: "A text as it stands in a JSON string, without quotes."},
	}
}

func times() []Function {
	return []Function{
		{Signature: "sleep_ms(ms: Int) -> Unit", Doc: "Waits for that many milliseconds."},
		{Signature: "now_ms() -> Int", Doc: "The time in milliseconds since 1970."},
		{Signature: "now_s() -> Int", Doc: "The time in seconds since 1970."},
		{Signature: "format_timestamp(ms: Int, format: String) -> String",
			Doc: "A time in UTC by a format such as %Y-%m-%d %H:%M:%S."},
		{Signature: "parse_timestamp(s: String, format: String) -> Int fails",
			Doc: "The time in milliseconds since 1970 that a text says in a format."},
	}
}

func files() []Function {
	return []Function{
		{Signature: "read_file(path: String) -> String fails", Doc: "The content of a file."},
		{Signature: "write_file(path: String, content: String) -> Unit fails", Doc: "Makes a file hold the content."},
		{Signature: "append_file(path: String, content: String) -> Unit fails", Doc: "Adds to the end of a file."},
		{Signature: "file_exists(path: String) -> Bool", Doc: "Whether there is a file or a directory of that name."},
		{Signature: "delete_file(path: String) -> Unit fails", Doc: "Removes a file."},
		{Signature: "list_dir(path: String) -> List<String> fails", Doc: "The names in a directory, sorted."},
		{Signature: "make_dir(path: String) -> Unit fails", Doc: "Makes a directory and those that it is in."},
	}
}

func environ() []Function {
	return []Function{
		{Signature: "env(name: String) -> Option<String>", Doc: "A variable of the environment."},
		{Signature: "env_or(name: String, other: String) -> String",
			Doc: "A variable of the environment, or the other if it is not set."},
	}
}

func tests() []Function {
	return []Function{
		{Signature: "assert(is: Bool) -> Unit", Doc: "Fails the test if is is false."},
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
		{Signature: "assert_true(is: Bool) -> Unit", Doc: "Fails the test if is is false."},
		{Signature: "assert_false(is: Bool) -> Unit", Doc: "Fails the test if is is true."},
		{Signature: "assert_contains(s: String, part: String) -> Unit",
			Doc: "Fails the test unless the part is in the text."},
		{Signature: "assert_contains<T>(xs: List<T>, x: T) -> Unit",
			Doc: "Fails the test unless an element is equal to x."},
		{Signature: "assert_not_contains(s: String, part: String) -> Unit",
			Doc: "Fails the test if the part is in the text."},
		{Signature: "assert_not_contains<T>(xs: List<T>, x: T) -> Unit",
			Doc: "Fails the test if an element is equal to x."},
		{Signature: "assert_empty(s: String) -> Unit", Doc: "Fails the test unless there is no character."},
		{Signature: "assert_empty<T>(xs: List<T>) -> Unit", Doc: "Fails the test unless there is no element."},
		{Signature: "assert_empty<K, V>(m: Map<K, V>) -> Unit", Doc: "Fails the test unless there is no key."},
		{Signature: "assert_not_empty(s: String) -> Unit", Doc: "Fails the test if there is no character."},
		{Signature: "assert_not_empty<T>(xs: List<T>) -> Unit", Doc: "Fails the test if there is no element."},
		{Signature: "assert_not_empty<K, V>(m: Map<K, V>) -> Unit", Doc: "Fails the test if there is no key."},
		{Signature: "assert_starts_with(s: String, prefix: String) -> Unit",
			Doc: "Fails the test unless the text begins with the prefix."},
		{Signature: "assert_ends_with(s: String, suffix: String) -> Unit",
			Doc: "Fails the test unless the text ends with the suffix."},
		{Signature: "assert_len(s: String, n: Int) -> Unit", Doc: "Fails the test unless there are n characters."},
		{Signature: "assert_len<T>(xs: List<T>, n: Int) -> Unit", Doc: "Fails the test unless there are n elements."},
		{Signature: "assert_len<K, V>(m: Map<K, V>, n: Int) -> Unit", Doc: "Fails the test unless there are n keys."},
		{Signature: "assert_empty_list<T>(xs: List<T>) -> Unit", Doc: "Fails the test unless there is no element."},
		{Signature: "assert_not_empty_list<T>(xs: List<T>) -> Unit", Doc: "Fails the test if there is no element."},
		{Signature: "assert_fails<T>(x: T) -> Unit", Doc: "Fails the test unless what it is given fails."},
	}
}
