package schedule

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// At is an option of a start: the run exists at once, and its code is called at that time, or soon
// after it if no engine has room. A time that has come changes nothing.
//
// Until then the run is PENDING and not in memory, takes no slot or token of a limit, keeps its
// signals, and can be cancelled. The Timeout of its workflow counts from that time on. A run that
// retries or continues it does not wait again.
type At time.Time

// ApplyToStart implements perdure.StartOption.
func (a At) ApplyToStart(o *sealed.Start) error {
	t := time.Time(a)
	if t.IsZero() || !t.Before(tooLate) {
		return &journal.Error{
			Code: journal.CodeInvalid, Op: "start",
			Message: fmt.Sprintf("At %s is not valid: allowed are times before the year %d",
				t.UTC().Format(time.RFC3339), tooLate.Year()),
			Hint: "leave At out to begin at once",
		}
	}
	o.At = t
	return nil
}

// tooLate is the first time that is refused: a store counts nanoseconds since 1970.
var tooLate = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
