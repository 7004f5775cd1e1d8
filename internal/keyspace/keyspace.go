package keyspace

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxNameBytes is the longest lock name that is accepted.
const MaxNameBytes = 512

// MaxPrefixBytes is the longest key prefix that is accepted.
const MaxPrefixBytes = 128

// Space is the set of keys and channels of one prefix. Its zero value is not usable.
type Space struct {
	prefix string
	lock   string
}

// New returns the keys of prefix, or an error that says what is wrong with it.
func New(prefix string) (Space, error) {
	if err := checkPrefix(prefix); err != nil {
		return Space{}, err
	}
	return Space{prefix: prefix, lock: "{" + prefix + "}:lock:"}, nil
}

func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("key prefix is empty")
	case len(prefix) > MaxPrefixBytes:
		return fmt.Errorf("key prefix has %d bytes, at most %d are allowed", len(prefix), MaxPrefixBytes)
	case !utf8.ValidString(prefix):
		return fmt.Errorf("key prefix %q is not valid UTF-8", prefix)
	case strings.ContainsAny(prefix, `{}*?[]\`):
		// Braces would move the hash tag; glob characters would change what an
		// ACL rule such as ~{prefix}:* opens.
		return fmt.Errorf(`key prefix %q contains one of {}*?[]\`, prefix)
	case strings.ContainsFunc(prefix, isControl):
		return fmt.Errorf("key prefix %q contains a control character or a blank", prefix)
	}
	return nil
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

// CheckName says what is wrong with a lock name, if anything.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("lock name is empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("lock name %.40q… has %d bytes, at most %d are allowed", name, len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("lock name %q is not valid UTF-8", name)
	}
	return nil
}

// Prefix is the prefix as it was given.
func (s Space) Prefix() string { return s.prefix }

// Lock is the key of a lock's record.
func (s Space) Lock(name string) string { return s.lock + name }

// LockName is the name behind a record's key; false if key is of another kind or prefix.
func (s Space) LockName(key string) (string, bool) { return strings.CutPrefix(key, s.lock) }

// Server is the key that remembers which server handed out the locks.
func (s Space) Server() string { return "{" + s.prefix + "}:server" }

// SelfTest is the scratch key on which a service tries its rights.
func (s Space) SelfTest(node string) string { return "{" + s.prefix + "}:selftest:" + node }

// Wake is the channel on which a node hears that locks it waits for may be free.
func (s Space) Wake(node string) string { return "{" + s.prefix + "}:wake:" + node }

// Graph is the key under which a node leaves who waits there, for others that
// its messages don't reach.
func (s Space) Graph(node string) string { return "{" + s.prefix + "}:graph:" + node }

// Waiting is the channel on which nodes tell each other who waits for what.
func (s Space) Waiting() string { return "{" + s.prefix + "}:waiting" }
