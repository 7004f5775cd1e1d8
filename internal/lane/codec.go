package lane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

// maxRecordBytes is the longest value that is taken for a record. It is far
// above what thousands of readers fill, and keeps a foreign value of half a
// gigabyte from being parsed.
const maxRecordBytes = 16 << 20

// cannotWrite is the answer to who needs a record that the JSON handler can't
// write: trying again doesn't help.
func cannotWrite(err error) error {
	return &Unavailable{Err: fmt.Errorf("the JSON handler can't write a record: %w", err), Permanent: true}
}

// guarded turns panics of a JSON handler into errors: it is called on whatever
// goroutine carries, which is seldom the one of the caller it is called for.
type guarded struct{ handler jsonhandler.Handler }

func (g guarded) Marshal(v any) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicError(r)
		}
	}()
	return g.handler.Marshal(v)
}

func (g guarded) Unmarshal(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicError(r)
		}
	}()
	return g.handler.Unmarshal(data, v)
}

func panicError(r any) error { return fmt.Errorf("it panicked: %v", r) }

func quote(s string) string {
	if len(s) > 80 {
		return strconv.Quote(s[:80]) + "…"
	}
	return strconv.Quote(s)
}

// decodeRecord reads a lock's record, or says why data is none.
func decodeRecord(h jsonhandler.Handler, name string, data []byte) (lockrules.Record, error) {
	rec := lockrules.Record{}
	if err := decode(h, data, &rec); err != nil {
		return rec, err
	}
	if err := checkVersion(rec.V); err != nil {
		return rec, err
	}
	if rec.LockName != name {
		return rec, fmt.Errorf("the record is of the lock %s", quote(rec.LockName))
	}
	if err := checkHoldings(&rec); err != nil {
		return rec, err
	}
	if err := checkNumbers(&rec); err != nil {
		return rec, err
	}
	if rec.ReadOwners == nil {
		rec.ReadOwners = []lockrules.Holding{}
	}
	if rec.Waiting == nil {
		rec.Waiting = []lockrules.Mark{}
	}
	err := keepUnknown(h, data, &rec)
	return rec, err
}

func checkVersion(v int) error {
	switch {
	case v > lockrules.Version:
		return fmt.Errorf("the record has version %d, this service knows versions up to %d", v, lockrules.Version)
	case v < 1:
		return errors.New("the value is not a lock record: it has no version")
	}
	return nil
}

func checkHoldings(rec *lockrules.Record) error {
	check := func(h *lockrules.Holding) error {
		switch {
		case h.ID == "":
			return errors.New("an owner in the record has no id")
		case h.ExpiresAt != nil && h.LeaseMillis <= 0:
			return fmt.Errorf("the owner %s in the record has no lease", quote(h.ID))
		}
		return nil
	}
	var errs []error
	if rec.WriteOwner != nil {
		errs = append(errs, check(rec.WriteOwner))
	}
	for i := range rec.ReadOwners {
		errs = append(errs, check(&rec.ReadOwners[i]))
	}
	for i := range rec.Waiting {
		if rec.Waiting[i].Node == "" {
			errs = append(errs, errors.New("a waiting mark in the record has no node"))
		}
	}
	return errors.Join(errs...)
}

func decodeServer(h jsonhandler.Handler, data []byte) (*lockrules.Server, error) {
	s := &lockrules.Server{}
	if err := decode(h, data, s); err != nil {
		return nil, err
	}
	if err := checkVersion(s.V); err != nil {
		return nil, err
	}
	if s.RunID == "" || s.LeaseMillis <= 0 || s.LeaseMillis >= maxSpan {
		return nil, errors.New("the value is not a memory of the server: it has no run id or no lease")
	}
	if again, err := h.Marshal(s); err != nil || !bytes.Equal(again, data) {
		s.Extra = unknownFields(h, data, s)
	}
	return s, nil
}

func decode(h jsonhandler.Handler, data []byte, v any) error {
	switch {
	case len(data) == 0:
		return errors.New("the value is empty")
	case len(data) > maxRecordBytes:
		return fmt.Errorf("the value has %d bytes, a record has at most %d", len(data), maxRecordBytes)
	case data[0] != '{':
		return errors.New("the value is not a JSON object")
	}
	if err := h.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the value is not a lock record: %w", err)
	}
	return nil
}

// keepUnknown takes up the fields that a newer writer of the same version has
// added. If what we would write equals what we read, there are none: that is
// the usual case, and cheaper than looking at every field.
func keepUnknown(h jsonhandler.Handler, data []byte, rec *lockrules.Record) error {
	again, err := h.Marshal(rec)
	if err != nil {
		return fmt.Errorf("the JSON handler can't write what it has read: %w", err)
	}
	if bytes.Equal(again, data) {
		return nil
	}
	rec.Extra = unknownFields(h, data, rec)
	var parts struct {
		WriteOwner  json.RawMessage   `json:"writeOwner"`
		ReadOwners  []json.RawMessage `json:"readOwners"`
		Waiting     []json.RawMessage `json:"waiting"`
		LastSuccess json.RawMessage   `json:"lastSuccess"`
	}
	if h.Unmarshal(data, &parts) != nil {
		return nil
	}
	if rec.WriteOwner != nil {
		rec.WriteOwner.Extra = unknownFields(h, parts.WriteOwner, rec.WriteOwner)
	}
	if rec.LastSuccess != nil {
		rec.LastSuccess.Extra = unknownFields(h, parts.LastSuccess, rec.LastSuccess)
	}
	for i := range min(len(parts.ReadOwners), len(rec.ReadOwners)) {
		rec.ReadOwners[i].Extra = unknownFields(h, parts.ReadOwners[i], &rec.ReadOwners[i])
	}
	for i := range min(len(parts.Waiting), len(rec.Waiting)) {
		rec.Waiting[i].Extra = unknownFields(h, parts.Waiting[i], &rec.Waiting[i])
	}
	return nil
}

// optionalFields are left out of what is written while they have no value, so
// their absence there doesn't make them unknown.
var optionalFields = map[string]bool{"lastSuccess": true, "error": true, "renewals": true}

// unknownFields are the fields of the object in data that v doesn't write.
func unknownFields(h jsonhandler.Handler, data []byte, v any) map[string]json.RawMessage {
	var all, known map[string]json.RawMessage
	own, err := h.Marshal(v)
	if err != nil || h.Unmarshal(data, &all) != nil || h.Unmarshal(own, &known) != nil {
		return nil
	}
	for name := range all {
		if isKnown(name, known) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// isKnown also takes a name for known that differs in case only: encoding/json
// reads it into the same field. Written back beside that field it would, at the
// next read, stand in place of what was written.
func isKnown(name string, known map[string]json.RawMessage) bool {
	if _, ok := known[name]; ok || optionalFields[name] {
		return true
	}
	for k := range known {
		if strings.EqualFold(k, name) {
			return true
		}
	}
	for k := range optionalFields {
		if strings.EqualFold(k, name) {
			return true
		}
	}
	return false
}

// encodeRecord writes a record, unknown fields included.
func encodeRecord(h jsonhandler.Handler, rec *lockrules.Record) ([]byte, error) {
	if !hasUnknown(rec) {
		return h.Marshal(rec)
	}
	top, err := withUnknown(h, rec, rec.Extra)
	if err != nil {
		return nil, err
	}
	var errs []error
	put := func(field string, v any, e error) { top[field], errs = v, append(errs, e) }
	if rec.WriteOwner != nil {
		v, err := withUnknown(h, rec.WriteOwner, rec.WriteOwner.Extra)
		put("writeOwner", v, err)
	}
	if rec.LastSuccess != nil {
		v, err := withUnknown(h, rec.LastSuccess, rec.LastSuccess.Extra)
		put("lastSuccess", v, err)
	}
	readers := make([]any, len(rec.ReadOwners))
	for i := range rec.ReadOwners {
		readers[i], err = withUnknown(h, &rec.ReadOwners[i], rec.ReadOwners[i].Extra)
		errs = append(errs, err)
	}
	marks := make([]any, len(rec.Waiting))
	for i := range rec.Waiting {
		marks[i], err = withUnknown(h, &rec.Waiting[i], rec.Waiting[i].Extra)
		errs = append(errs, err)
	}
	top["readOwners"], top["waiting"] = readers, marks
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h.Marshal(top)
}

func hasUnknown(rec *lockrules.Record) bool {
	if rec.Extra != nil || rec.WriteOwner != nil && rec.WriteOwner.Extra != nil ||
		rec.LastSuccess != nil && rec.LastSuccess.Extra != nil {
		return true
	}
	for i := range rec.ReadOwners {
		if rec.ReadOwners[i].Extra != nil {
			return true
		}
	}
	for i := range rec.Waiting {
		if rec.Waiting[i].Extra != nil {
			return true
		}
	}
	return false
}

// withUnknown is v as a JSON object with the extra fields put back.
func withUnknown(h jsonhandler.Handler, v any, extra map[string]json.RawMessage) (map[string]any, error) {
	own, err := h.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := h.Unmarshal(own, &fields); err != nil {
		return nil, err
	}
	all := make(map[string]any, len(fields)+len(extra))
	for name, value := range extra {
		all[name] = value
	}
	for name, value := range fields {
		all[name] = value
	}
	return all, nil
}

func encodeServer(h jsonhandler.Handler, s *lockrules.Server) ([]byte, error) {
	if s.Extra == nil {
		return h.Marshal(s)
	}
	fields, err := withUnknown(h, s, s.Extra)
	if err != nil {
		return nil, err
	}
	return h.Marshal(fields)
}
