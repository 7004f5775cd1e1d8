package lane

import (
	"encoding/json"
	"errors"
)

// maxWakeBytes bounds what is read of a wake-up. A longer one is treated as
// "something may be free".
const maxWakeBytes = 1 << 20

// EncodeWake is the message that the locks named may be free.
func EncodeWake(names []string) (string, error) {
	data, err := json.Marshal(names)
	return string(data), err
}

// DecodeWake reads such a message. Whatever else was sent is an error.
func DecodeWake(msg string) ([]string, error) {
	if len(msg) > maxWakeBytes {
		return nil, errors.New("the wake-up is too long")
	}
	var names []string
	err := json.Unmarshal([]byte(msg), &names)
	return names, err
}
