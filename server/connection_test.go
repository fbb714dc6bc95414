package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/server"
)

// raw sends text over a connection of its own, and returns the status of the answer; 0 for none.
func (w *world) raw(text string) int {
	w.t.Helper()
	c, err := w.pipes.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, text)
	return answered(c)
}

func answered(c net.Conn) int {
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// A request has one meaning, or none. The standard library takes a folded line, in one way.
//
// spec: P-10
func TestAnAmbiguousRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		head := "POST " + api + "/workflows/waiting/start HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\n"
		for text, want := range map[string]int{
			head + "Content-Length: 2\r\n\r\n{}":                                      201,
			head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}":                 400,
			head + "Content-Length: -1\r\n\r\n{}":                                     400,
			head + "Content-Length: 0x2\r\n\r\n{}":                                    400,
			head + "Content-Length: 1\r\n\r\n{}":                                      400,
			head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n":                501,
			head + "Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n":           400,
			head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":           201,
			head + "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}":                        201,
			strings.Replace(head, "Host:", "Hos:", 1) + "Content-Length: 2\r\n\r\n{}": 400,
			head + strings.Repeat("X: y\r\n", 1_000_000) + "\r\n":                     431,
			"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\n\r\n":                431,
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                        421,
		} {
			got := w.raw(text)
			if got != want && (want != 400 || got != 0) {
				t.Errorf("%.200q: status %d, want %d", text, got, want)
			}
		}
		both := head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
		if got := w.raw(both); got != 400 && got != 201 {
			t.Errorf("both lengths: status %d", got)
		}
	})
}

// A caller who sends too slowly is cut off, whether it is the head or the body that comes slowly.
//
// spec: P-10
func TestASlowCallerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, setting{piped: true})
		for part, most := range map[string]time.Duration{"head": 10 * time.Second,
			"body": time.Minute} {
			c, err := w.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			text := "POST " + api + "/workflows/waiting/start HTTP/1.1\r\nHost: localhost\r\n"
			if part == "body" {
				text += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
			}
			go func() {
				io.WriteString(c, text)
				for {
					time.Sleep(time.Second)
					if _, err := io.WriteString(c, "X"); err != nil {
						return
					}
				}
			}()
			status := answered(c)
			if d := time.Since(begun); d > most || status != 0 && status/100 != 4 {
				t.Errorf("a slow %s: status %d after %v", part, status, d)
			}
			c.Close()
		}
		// an answer may take longer than a request
		id := w.start("waiting", "")
		w.want(202, "GET", api+"/executions/"+id+"/result?wait=4m", "")
		w.want(202, "GET", api+"/executions/"+id+"/result?wait=4m", `{}`)
	})
}

// A caller who closes its half of the connection, or breaks off in a body, does no harm.
//
// spec: P-10
func TestABrokenRequestIsNoFaultOfTheServer(t *testing.T) {
	w := begin(t, server.Options{})
	for _, text := range []string{
		"POST " + api + "/workflows/waiting/start HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{}",
		"POST " + api + "/workflows/waiting/start HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
	} {
		c, err := net.Dial("tcp", w.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		if status := answered(c); status != 0 && status != 400 {
			t.Errorf("%.300q: status %d", text, status)
		}
		c.Close()
	}
}

// endless is a body of 10 GB.
type endless struct{ sent atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	if e.sent.Add(int64(len(b))) > 10<<30 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// spec: P-10
func TestAnEndlessBodyIsCutOff(t *testing.T) {
	w := begin(t, server.Options{MaxBody: 1 << 20})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body := &endless{}
	r, err := http.NewRequest("POST", w.url()+api+"/workflows/waiting/start", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.client().Do(r)
	if err == nil {
		if answer.Body.Close(); answer.StatusCode != 413 {
			t.Error(answer.Status)
		}
	}
	runtime.ReadMemStats(&after)
	if sent := body.sent.Load(); sent > 64<<20 {
		t.Errorf("%d bytes were taken", sent)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d bytes of memory were used", used)
	}
	w.want(413, "POST", api+"/workflows/waiting/start", fmt.Sprintf(`{"input":"%s"}`,
		strings.Repeat("a", 1<<20)))
	// a body of exactly the limit is taken
	fits := `{"input":"` + strings.Repeat("a", 1<<20-len(`{"input":""}`)) + `"}`
	if status, text := w.ask("POST", api+"/workflows/greet/start", fits); status != 201 {
		t.Error(status, text)
	}
}
