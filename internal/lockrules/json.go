package lockrules

import (
	"encoding/json"
	"slices"
	"strconv"
)

// AppendJSON appends what encoding/json would write of the record. Every change
// of a lock writes its record, and reflection was a quarter of what a process
// does for a lock. Unknown fields (Extra) are not among it.
func (r *Record) AppendJSON(to []byte) ([]byte, error) {
	to = slices.Grow(to, r.roughSize())
	to = append(to, `{"v":`...)
	to = strconv.AppendInt(to, int64(r.V), 10)
	to = append(to, `,"lockName":`...)
	to = appendString(to, r.LockName)
	to = append(to, `,"writeOwner":`...)
	to = r.WriteOwner.appendJSON(to)
	to = append(to, `,"readOwners":`...)
	to = appendList(to, r.ReadOwners, (*Holding).appendJSON)
	to = append(to, `,"waiting":`...)
	to = appendList(to, r.Waiting, (*Mark).appendJSON)
	to = append(to, `,"keepLockData":`...)
	to = strconv.AppendBool(to, r.KeepLockData)
	to = appendNumber(to, `,"fencingToken":`, r.FencingToken)
	to = appendNumber(to, `,"updatedAtEpochMillis":`, r.UpdatedAt)
	if r.LastSuccess != nil {
		to = append(to, `,"lastSuccess":`...)
		to = r.LastSuccess.appendJSON(to)
	}
	return append(to, '}'), nil
}

// roughSize is room for the record, if its names are of the usual length.
func (r *Record) roughSize() int {
	const rest, holding, mark = 256, 320, 160
	holdings := len(r.ReadOwners)
	for _, h := range []*Holding{r.WriteOwner, r.LastSuccess} {
		if h != nil {
			holdings++
		}
	}
	return rest + holding*holdings + mark*len(r.Waiting)
}

func (h *Holding) appendJSON(to []byte) []byte {
	if h == nil {
		return append(to, "null"...)
	}
	to = append(to, `{"id":`...)
	to = appendString(to, h.ID)
	to = append(to, `,"owner":`...)
	to = appendString(to, h.Owner)
	to = append(to, `,"node":`...)
	to = appendString(to, h.Node)
	to = appendNumber(to, `,"acquiredAtEpochMillis":`, h.AcquiredAt)
	to = appendOptional(to, `,"expiresAtEpochMillis":`, h.ExpiresAt)
	to = appendNumber(to, `,"leaseMillis":`, h.LeaseMillis)
	to = appendNumber(to, `,"fencingToken":`, h.FencingToken)
	to = appendOptional(to, `,"releasedAtEpochMillis":`, h.ReleasedAt)
	to = append(to, `,"outcome":`...)
	if h.Outcome == nil {
		to = append(to, "null"...)
	} else {
		to = appendString(to, string(*h.Outcome))
	}
	if h.Error != "" {
		to = append(to, `,"error":`...)
		to = appendString(to, h.Error)
	}
	if h.Renewals != 0 {
		to = appendNumber(to, `,"renewals":`, h.Renewals)
	}
	return append(to, '}')
}

func (m *Mark) appendJSON(to []byte) []byte {
	to = append(to, `{"node":`...)
	to = appendString(to, m.Node)
	to = append(to, `,"write":`...)
	to = strconv.AppendBool(to, m.Write)
	to = appendNumber(to, `,"sinceEpochMillis":`, m.Since)
	to = appendNumber(to, `,"untilEpochMillis":`, m.Until)
	to = appendNumber(to, `,"lastsMillis":`, m.LastsMillis)
	return append(to, '}')
}

func appendList[T any](to []byte, list []T, one func(*T, []byte) []byte) []byte {
	if list == nil {
		return append(to, "null"...)
	}
	to = append(to, '[')
	for i := range list {
		if i > 0 {
			to = append(to, ',')
		}
		to = one(&list[i], to)
	}
	return append(to, ']')
}

func appendNumber[N ~int64](to []byte, field string, n N) []byte {
	return strconv.AppendInt(append(to, field...), int64(n), 10)
}

func appendOptional(to []byte, field string, at *Millis) []byte {
	if at == nil {
		return append(append(to, field...), "null"...)
	}
	return appendNumber(to, field, *at)
}

// appendString leaves what needs care to encoding/json; hardly any name does.
func appendString(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string has no way to fail
			return append(to, quoted...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}
