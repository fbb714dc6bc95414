package testserver

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ask sends a request to a Redis server and returns the first line of the answer.
func ask(t *testing.T, s *Server, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	return strings.TrimSpace(line(c, request+"\r\n"))
}

func TestAKilledServerStartsAgainWithItsFiles(t *testing.T) {
	s := Redis(t)
	if said := ask(t, s, "SET a 7"); said != "+OK" {
		t.Fatalf("SET gives %q", said)
	}
	s.Kill()
	if said := ask(t, s, "PING"); said == "+PONG" {
		t.Fatal("a killed server answers")
	}
	s.Restart()
	if said := ask(t, s, "STRLEN a"); said != ":1" {
		t.Errorf("STRLEN gives %q after the restart, want :1", said)
	}
}

func TestAServerEndsWithItsTest(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) *Server{
		"redis": func(t *testing.T) *Server { return Redis(t) },
		"nats":  func(t *testing.T) *Server { return NATS(t) },
		"rabbitmq": func(t *testing.T) *Server {
			if testing.Short() {
				t.Skip("it starts slowly")
			}
			return RabbitMQ(t)
		},
	} {
		var s *Server
		t.Run(name, func(t *testing.T) {
			s = begin(t)
			s.Kill()
			s.Restart()
		})
		if s == nil {
			continue // it is not on this machine
		}
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			_ = c.Close()
			t.Errorf("%s serves after its test", name)
		}
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("%s leaves its directory: %v", name, err)
		}
	}
}

func TestTheWatchdogEndsWhatTheTestsLeft(t *testing.T) {
	s := Redis(t)
	if err := s.leash.Close(); err != nil { // as at the death of this process
		t.Fatal(err)
	}
	<-s.gone
	for {
		if found, _ := filepath.Glob(s.dir); len(found) == 0 {
			break
		}
	}
	s.leash = nopCloser{}
}

type nopCloser struct{}

func (nopCloser) Write(p []byte) (int, error) { return len(p), nil }
func (nopCloser) Close() error                { return nil }
