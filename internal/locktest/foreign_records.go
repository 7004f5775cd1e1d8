package locktest

import (
	"encoding/json"
	"time"
)

// foreignRecord is a record of a writer on another machine that acquired the lock now.
func foreignRecord(name, owner string, now int64, lease time.Duration) string {
	data, err := json.Marshal(map[string]any{
		"v": 1, "lockName": name, "readOwners": []any{}, "waiting": []any{},
		"writeOwner": foreignHolding(owner, now, lease), "keepLockData": false,
		"fencingToken": now * 1000, "updatedAtEpochMillis": now,
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func foreignHolding(owner string, now int64, lease time.Duration) map[string]any {
	return map[string]any{
		"id": "id-of-" + owner, "owner": owner, "node": "node-of-" + owner,
		"acquiredAtEpochMillis": now, "expiresAtEpochMillis": now + lease.Milliseconds(),
		"leaseMillis": lease.Milliseconds(), "fencingToken": now * 1000,
		"releasedAtEpochMillis": nil, "outcome": nil,
	}
}
