package redistx

import (
	"strconv"
	"strings"
)

// infoFields calls each with the fields of an INFO reply until it returns false.
// Through RESP3 the text may begin with "txt:", the mark of a verbatim string.
func infoFields(text string, each func(name, value string) (more bool)) {
	text = strings.TrimPrefix(text, "txt:")
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if ok && !strings.HasPrefix(name, "#") && !each(name, value) {
			return
		}
	}
}

// identity reads which start of which server answered, and for how long it is up.
func identity(text string) (runID string, uptime int64, err error) {
	uptimeErr := errNoUptime
	infoFields(text, func(name, value string) bool {
		switch name {
		case "run_id":
			runID = value
		case "uptime_in_seconds":
			uptime, uptimeErr = strconv.ParseInt(value, 10, 64)
		}
		return runID == "" || uptimeErr != nil
	})
	if runID == "" {
		return "", 0, errNoRunID
	}
	return runID, uptime, uptimeErr
}
