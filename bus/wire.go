package bus

import (
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/event"
)

// ContentType is the media type of the messages that [Encode] makes. A broker whose messages have
// headers sends it as content-type.
const ContentType = "application/cloudevents+json"

// Encode returns the message of each event, in the structured mode of CloudEvents. It refuses all
// of them if one has a defect. It is for authors of brokers.
func Encode(events []event.Event) ([][]byte, error) {
	all := make([][]byte, len(events))
	for i, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("bus: publish event %.100q: %w", e.ID, err)
		}
		all[i] = raw
	}
	return all, nil
}

// Decode returns the message for the bytes that [Encode] has made. What is no such event is bad. It
// is for authors of brokers, who add Attempt and Done.
func Decode(raw []byte) Message {
	var e event.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return Message{Bad: err, Raw: raw}
	}
	return Message{Event: e}
}
