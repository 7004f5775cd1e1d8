package fencing

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxResource is the longest resource in bytes; as long as a lock's name.
const maxResource = 512

// maxTablePart is PostgreSQL's limit, the smallest of the three: it would cut
// off a longer name silently.
const maxTablePart = 63

// validCheck refuses what no check could be about.
func validCheck(resource string, token int64) error {
	switch {
	case resource == "":
		return invalid("the resource is empty")
	case len(resource) > maxResource:
		return invalid(fmt.Sprintf("the resource has %d bytes, more than %d", len(resource), maxResource))
	case !utf8.ValidString(resource):
		return invalid(fmt.Sprintf("the resource %q is not UTF-8", resource))
	case strings.ContainsRune(resource, 0):
		return invalid(fmt.Sprintf("the resource %q contains NUL", resource))
	}
	return validToken(token)
}

// validToken refuses what no grant returns. Zero is what a forgotten or
// missing token looks like.
func validToken(token int64) error {
	if token <= 0 {
		return invalid(fmt.Sprintf("the token %d is not positive", token))
	}
	return nil
}

// validTable lets only names through that mean the same without quotes, so the
// name can stand in a statement as it is.
func validTable(name string) error {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return invalid(fmt.Sprintf("table name %q: at most one dot, after the schema", name))
	}
	for _, part := range parts {
		if !isIdentifier(part) {
			return invalid(fmt.Sprintf("table name %q: letters, digits and underscores only, not a digit first, 1 to %d of them", name, maxTablePart))
		}
	}
	return nil
}

func isIdentifier(s string) bool {
	if s == "" || len(s) > maxTablePart {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && (!digit || i == 0) {
			return false
		}
	}
	return true
}

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalidArgument, why) }
