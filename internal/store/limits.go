package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds on keys, values and calls. They fit into one request of any backend with its default
// settings.
const (
	MaxKey   = 1024    // bytes of a key, with the sequence number of an appended one
	MaxValue = 1 << 20 // bytes of a value
	MaxApply = 5 << 18 // bytes of all keys and values of one Apply, 1.25 MiB
	MaxOps   = 100     // ops of one Apply, and conditions; see also MaxOpsOf
	MaxLogs  = 20      // prefixes under which one Apply appends
	MaxPage  = 4 << 20 // bytes of values in one page of Scan
	MinTTL   = time.Millisecond
)

// seqDigits is the width of a sequence number in a key. It fits any uint64, so keys sort like
// their numbers.
const seqDigits = 20

// SequenceKey returns the key of the record that was appended under prefix with that number. Keys
// sort in the order of their numbers.
func SequenceKey(prefix string, seq uint64) string {
	return fmt.Sprintf("%s/%0*d", prefix, seqDigits, seq)
}

// ParseSequenceKey is the inverse of SequenceKey. ok is false if key was not appended under
// prefix.
func ParseSequenceKey(prefix, key string) (seq uint64, ok bool) {
	digits, ok := strings.CutPrefix(key, prefix+"/")
	if !ok || len(digits) != seqDigits || digits[0] == '+' {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

// CutSequenceKey returns the prefix and the number of a key that SequenceKey can have returned, and
// reports whether it can.
func CutSequenceKey(key string) (prefix string, seq uint64, ok bool) {
	i := len(key) - seqDigits - 1
	if i <= 0 {
		return "", 0, false
	}
	seq, ok = ParseSequenceKey(key[:i], key)
	return key[:i], seq, ok
}

// Under reports whether key is at or below prefix. Everything is below "".
func Under(prefix, key string) bool {
	return prefix == "" || strings.HasPrefix(key, prefix) && (len(key) == len(prefix) || key[len(prefix)] == '/')
}

// CheckKey returns an ErrInvalid that describes what is wrong with key, or nil. Keys are
// non-empty parts of printable UTF-8 text, joined by slashes.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w key: empty", ErrInvalid)
	case len(key) > MaxKey:
		return fmt.Errorf("%w key %.40q...: %d bytes, at most %d are allowed", ErrInvalid, key, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w key %q: not UTF-8", ErrInvalid, key)
	case key[0] == '/' || key[len(key)-1] == '/' || strings.Contains(key, "//"):
		return fmt.Errorf("%w key %q: has an empty part", ErrInvalid, key)
	case strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%w key %q: has a character that cannot be printed", ErrInvalid, key)
	}
	return nil
}

// CheckPrefix is CheckKey for a prefix, which may be empty.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return CheckKey(prefix)
}

// CheckLease returns an ErrInvalid if a lease cannot have that name or ttl.
func CheckLease(name string, ttl time.Duration) error {
	if ttl < MinTTL {
		return fmt.Errorf("%w ttl %v of lease %s: must be at least %v", ErrInvalid, ttl, name, MinTTL)
	}
	return CheckKey(name)
}

// MaxOpsOf returns how many ops one Apply of a store may have: MaxOps, unless the store has a
// method MaxOps that returns more.
func MaxOpsOf(s Store) int {
	if s, ok := s.(interface{ MaxOps() int }); ok {
		return max(MaxOps, s.MaxOps())
	}
	return MaxOps
}

// CheckApply returns an ErrInvalid if the arguments of an Apply break a bound; implementations
// call it first, with the most ops that they take. No key may be changed twice in one Apply, since
// it would be unclear which revision has which value. Several appends under one prefix are allowed.
func CheckApply(maxOps int, conds []Cond, ops []Op) error {
	if len(conds) > MaxOps || len(ops) > maxOps {
		return fmt.Errorf("%w apply: %d conditions and %d ops, at most %d and %d are allowed", ErrInvalid,
			len(conds), len(ops), MaxOps, maxOps)
	}
	changed := make(map[string]bool, len(ops))
	logs := map[string]bool{}
	size := 0
	for _, c := range conds {
		if err := CheckKey(c.Key); err != nil {
			return fmt.Errorf("condition: %w", err)
		}
		size += len(c.Key)
	}
	for i, op := range ops {
		if err := checkOp(op); err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
		if op.Kind != Append {
			if changed[op.Key] {
				return fmt.Errorf("op %d: %w: %s is changed twice", i, ErrInvalid, op.Key)
			}
			changed[op.Key] = true
		} else if logs[op.Key] = true; len(logs) > MaxLogs {
			return fmt.Errorf("op %d: %w: appends under more than %d prefixes", i, ErrInvalid, MaxLogs)
		}
		size += len(op.Key) + len(op.Value)
	}
	if size > MaxApply {
		return fmt.Errorf("%w apply: %d bytes, at most %d are allowed", ErrInvalid, size, MaxApply)
	}
	return nil
}

func checkOp(op Op) error {
	if err := CheckKey(op.Key); err != nil {
		return err
	}
	switch op.Kind {
	case Put:
	case Append:
		if n := len(op.Key) + 1 + seqDigits; n > MaxKey {
			return fmt.Errorf("%w key %.40q...: %d bytes with the sequence number, at most %d are allowed",
				ErrInvalid, op.Key, n, MaxKey)
		}
	case Delete:
		if op.Value != nil {
			return fmt.Errorf("%w: delete of %s has a value", ErrInvalid, op.Key)
		}
	default:
		return fmt.Errorf("%w kind %d of op on %s", ErrInvalid, op.Kind, op.Key)
	}
	if len(op.Value) > MaxValue {
		return fmt.Errorf("%w value of %s: %d bytes, at most %d are allowed", ErrInvalid, op.Key, len(op.Value),
			MaxValue)
	}
	return nil
}
