package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/perdure/perdure/server/auth"
)

// An events is an answer of server-sent events. Its caller is one goroutine.
type events struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	need   auth.Role
	conn   *http.ResponseController
	asked  time.Time // when the caller was authenticated last
	wrote  time.Time
}

const (
	// eventsEvery is the shortest time between two looks for more.
	eventsEvery = 100 * time.Millisecond
	// lookEvery is the longest time between two looks: other processes write, too.
	lookEvery = time.Second
	// beatEvery is how long an answer is silent at the most.
	beatEvery = 15 * time.Second
	// writeWithin is how long a caller may take to read what is written.
	writeWithin = 10 * time.Second
)

// begin begins the answer. It returns nil if the connection cannot carry one, and if the caller
// asks for its headers only.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, need auth.Role) *events {
	e := &events{
		server: s, w: w, r: r, need: need, conn: http.NewResponseController(w),
		asked: time.Now(), wrote: time.Now(),
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	w.Header().Set("Connection", "close")     // its deadlines are of no use for another answer
	e.limit()
	w.WriteHeader(http.StatusOK)
	if e.conn.Flush() != nil || r.Method == http.MethodHead {
		return nil
	}
	return e
}

// mark writes the ID behind which the events go on, without an event.
func (e *events) mark(id string) bool { return e.write([]byte("id: " + id + "\n\n")) }

// send writes an event, with an ID for Last-Event-ID if it has one. It reports whether the caller
// may get more.
func (e *events) send(id, name string, v any) bool {
	data, err := json.Marshal(e.server.hide.answer(who(e.r.Context()), v))
	if err != nil {
		e.server.log.Error("perdure: an event is no JSON", "error", err)
		return false
	}
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data)
	return e.write(b.Bytes())
}

// limit limits the time that the caller may take to read what is written next.
func (e *events) limit() {
	e.wrote = time.Now()
	_ = e.conn.SetWriteDeadline(e.wrote.Add(writeWithin)) // not every writer has deadlines
}

func (e *events) write(text []byte) bool {
	e.limit()
	_, err := e.w.Write(text)
	return err == nil
}

// flush sends what is written, and lifts the limit: over HTTP/2 one that has passed ends the answer
// even if nothing is written.
func (e *events) flush() bool {
	err := e.conn.Flush()
	_ = e.conn.SetWriteDeadline(time.Time{}) // not every writer has deadlines
	return err == nil
}

// pause waits until there may be more: when more is closed, and at the latest after lookEvery. It
// reports whether the caller is still there and may get more.
func (e *events) pause(more <-chan struct{}) bool {
	if !e.flush() || !e.rest(eventsEvery, nil) || !e.rest(lookEvery, more) {
		return false
	}
	return e.alive()
}

// alive writes a sign of life if nothing was written for long. It reports whether the caller is
// still there and may get more.
func (e *events) alive() bool {
	now := time.Now()
	if now.Sub(e.asked) > authenticateEvery {
		if e.asked = now; !e.server.stillMay(e.r, e.need) {
			return false
		}
	}
	if now.Sub(e.wrote) >= beatEvery {
		return e.write([]byte(": here\n\n")) && e.flush()
	}
	return true
}

// beat returns a channel that receives when it is time to ask whether the caller is alive.
func (e *events) beat() <-chan time.Time { return time.After(beatEvery) }

func (e *events) rest(most time.Duration, more <-chan struct{}) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
	case <-more:
	case <-e.r.Context().Done():
		return false
	}
	return true
}
