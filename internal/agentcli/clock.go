package agentcli

import (
	"strings"
	"time"
)

// minute is the precision of times in messages. A limit has ended for certain when the minute that its message
// names is over.
const minute = time.Minute

// nextClock returns when a clock has shown text next, such as "3:04am", "3:04 AM" or "9pm"; zero if it is no time
// of a day.
func nextClock(text string, now time.Time, where *time.Location) time.Time {
	text = strings.ToUpper(strings.ReplaceAll(text, " ", ""))
	for _, layout := range []string{"3:04PM", "3PM"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		now = now.In(where)
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, where).Add(minute)
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at
	}
	return time.Time{}
}
