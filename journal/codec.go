package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// FormatVersion is the version of the format that this package writes. Whatever an older version
// wrote stays readable. Whatever a newer version wrote is refused.
const FormatVersion = 1

// A CorruptError reports a stored row that is not readable. The run that it belongs to is parked.
// Other runs are not touched.
type CorruptError struct {
	Run    Number
	Seq    int64 // 0 means the head
	Reason string
	Err    error // the cause, if there is another error behind the reason
}

// Error names the row and the reason.
func (e *CorruptError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("journal: the head of run %d cannot be read: %s", e.Run, e.Reason)
	}
	return fmt.Sprintf("journal: entry %d of run %d cannot be read: %s", e.Seq, e.Run, e.Reason)
}

// Unwrap returns the cause; nil if there is none.
func (e *CorruptError) Unwrap() error { return e.Err }

// EncodeDetail returns the bytes of a detail; nil for no detail.
func EncodeDetail(d *Detail) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	if d.Outcome != 0 {
		stored := *d
		stored.Number = uint8(d.Outcome)
		d = &stored
	}
	return json.Marshal(d)
}

// DecodeDetail reads the bytes that EncodeDetail returned. It refuses fields that it does not know,
// so that no fact of a newer version is read in part.
func DecodeDetail(b []byte) (*Detail, error) {
	if len(b) == 0 {
		return nil, nil
	}
	d := new(Detail)
	if err := strictly(b, d); err != nil {
		return nil, err
	}
	d.Outcome, d.Number = Status(d.Number), 0
	return d, nil
}

// Check returns a CorruptError if no code of this version could have written the entry. Drivers
// call it on each row that they read.
func (e *Entry) Check() error {
	reason := ""
	switch {
	case e.Run < 0 || e.Run == 0 && !e.Kind.IsMessage(): // a message may have found no run
		reason = "it has no run"
	case e.Seq <= 0:
		reason = "it has no sequence"
	case !e.Kind.Valid():
		reason = "unknown kind " + e.Kind.String()
	case e.Status != 0 && !e.Status.Valid():
		reason = "unknown status " + e.Status.String()
	case e.Detail != nil && e.Detail.Outcome != 0 && !e.Detail.Outcome.Valid():
		reason = "unknown outcome " + e.Detail.Outcome.String()
	case e.Op.Occ < 0 || e.Op.Scope < 0 || e.Op.Scope >= e.Seq && !e.Kind.IsMessage():
		// a message has a sequence of its own
		reason = "its operation is not valid"
	case e.Op.Name != "" && !ValidName(e.Op.Name):
		reason = "its name is not valid"
	default:
		return nil
	}
	return &CorruptError{Run: e.Run, Seq: e.Seq, Reason: reason}
}

// Whole returns a CorruptError that names the first missing entry, if the entries of a journal do
// not follow each other without a gap, beginning with the sequence from.
func Whole(run Number, from int64, entries []Entry) error {
	for i := range entries {
		if want := from + int64(i); entries[i].Seq != want {
			return &CorruptError{
				Run: run, Seq: want, Reason: fmt.Sprintf("it is missing, and entry %d is there",
					entries[i].Seq),
			}
		}
	}
	return nil
}

// An entryLine is an entry as one line of JSON: the form of exports and of golden journals.
type entryLine struct {
	Version int             `json:"v"`
	Run     Number          `json:"run"`
	Seq     int64           `json:"seq"`
	Kind    string          `json:"kind"`
	Status  string          `json:"status,omitempty"`
	Scope   int64           `json:"scope,omitempty"`
	Name    string          `json:"name,omitempty"`
	Key     string          `json:"key,omitempty"`
	Occ     int             `json:"occ,omitempty"`
	At      int64           `json:"at"` // nanoseconds since 1970
	Took    time.Duration   `json:"took,omitempty"`
	Data    []byte          `json:"data,omitempty"`
	Empty   bool            `json:"empty,omitempty"` // Data is present and has no bytes
	Spill   Number          `json:"spill,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// MarshalJSON returns the entry as one JSON object.
func (e Entry) MarshalJSON() ([]byte, error) {
	detail, err := EncodeDetail(e.Detail)
	if err != nil {
		return nil, err
	}
	l := entryLine{
		Version: FormatVersion, Run: e.Run, Seq: e.Seq, Kind: e.Kind.String(),
		Scope: e.Op.Scope, Name: e.Op.Name, Key: e.Op.Key, Occ: e.Op.Occ,
		At: e.At.UnixNano(), Took: e.Took, Data: e.Data, Empty: e.Data != nil && len(e.Data) == 0,
		Spill: e.Spill, Detail: detail,
	}
	if e.Status != 0 {
		l.Status = e.Status.String()
	}
	return json.Marshal(l)
}

// UnmarshalJSON reads the output of MarshalJSON, of this version or an older one.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var l entryLine
	if err := strictly(b, &l); err != nil {
		return err
	}
	if l.Version < 1 || l.Version > FormatVersion {
		return fmt.Errorf("journal: the entry has version %d: this program reads versions up to %d",
			l.Version,
			FormatVersion)
	}
	kind, ok := ParseKind(l.Kind)
	if !ok {
		return &CorruptError{Run: l.Run, Seq: l.Seq, Reason: "unknown kind " + l.Kind}
	}
	var status Status
	if l.Status != "" {
		if status, ok = ParseStatus(l.Status); !ok {
			return &CorruptError{Run: l.Run, Seq: l.Seq, Reason: "unknown status " + l.Status}
		}
	}
	detail, err := DecodeDetail(l.Detail)
	if err != nil {
		return &CorruptError{Run: l.Run, Seq: l.Seq, Reason: err.Error()}
	}
	if l.Empty && l.Data == nil {
		l.Data = []byte{}
	}
	*e = Entry{
		Run: l.Run, Seq: l.Seq, Kind: kind, Status: status,
		Op: Op{Scope: l.Scope, Name: l.Name, Key: l.Key, Occ: l.Occ},
		At: time.Unix(0, l.At).UTC(), Took: l.Took, Data: l.Data, Spill: l.Spill, Detail: detail,
	}
	return e.Check()
}

// Write writes entries as lines of JSON.
func Write(w io.Writer, entries []Entry) error {
	enc := json.NewEncoder(w)
	for i := range entries {
		if err := enc.Encode(entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the entries that Write wrote.
func Read(r io.Reader) ([]Entry, error) {
	var entries []Entry
	dec := json.NewDecoder(r)
	for {
		var e Entry
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("journal: entry %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}

// strictly decodes exactly one JSON value and refuses unknown fields and anything that follows.
func strictly(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("journal: something follows the value")
	}
	return nil
}
