package etcd

import "strings"

// keys makes the keys that a store has in etcd.
type keys struct {
	prefix string // of all keys, with a slash at the end
}

// key returns the key of etcd of a record.
func (k keys) key(key string) string { return k.prefix + "k/" + key }

// record returns the key of a record, given that of etcd.
func (k keys) record(key string) string { return strings.TrimPrefix(key, k.prefix+"k/") }

func (k keys) sequenceKey(prefix string) string { return k.prefix + "n/" + prefix }

func (k keys) leaseKey(name string) string { return k.prefix + "l/" + name }

// bounds returns the range of keys of etcd that has all records at and below a prefix, and a few others.
func (k keys) bounds(prefix string) (from, to string) {
	if prefix == "" {
		return k.key(""), k.prefix + "k0" // '0' is the character after '/'
	}
	return k.key(prefix), k.key(prefix) + "0"
}
