package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Redis starts a Redis server that keeps what it acknowledges: its log is written to the disk
// before each answer. Further arguments, such as "--appendfsync", "everysec", count more.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, program{
		name: "redis", paths: []string{"redis-server"},
		command: func(s *Server) (all, env []string, err error) {
			return append([]string{
				s.path, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
				"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			}, args...), nil, nil
		},
		ready: func(c net.Conn) bool { return strings.HasPrefix(line(c, "PING\r\n"), "+PONG") },
	})
}

// NATS starts a NATS server with JetStream.
func NATS(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, program{
		name: "nats", paths: []string{"nats-server", "/usr/sbin/nats-server"},
		command: func(s *Server) (all, env []string, err error) {
			return append([]string{
				s.path, "-a", "127.0.0.1", "-p", strconv.Itoa(s.port), "-js", "-sd",
				filepath.Join(s.dir, "jetstream"),
			}, args...), nil, nil
		},
		ready: func(c net.Conn) bool { return strings.HasPrefix(line(c, ""), "INFO ") },
	})
}

// rabbit starts RabbitMQ with a name server of its own, which otherwise would stay for ever.
const rabbit = `
epmd -port "$ERL_EPMD_PORT" >/dev/null 2>&1 &
exec "$1"
`

// RabbitMQ starts a RabbitMQ server. Its start takes some seconds. Its user is guest, with the
// password guest. Settings are lines of its rabbitmq.conf.
func RabbitMQ(t testing.TB, settings ...string) *Server {
	t.Helper()
	var names int // ports of the name server and of the node
	return start(t, program{
		name: "rabbitmq", paths: []string{
			"/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server", "/usr/sbin/rabbitmq-server",
		},
		command: func(s *Server) (all, env []string, err error) {
			if names == 0 {
				names = freePort(s.t)
			}
			none := filepath.Join(s.dir, "none")
			if err := os.WriteFile(none, []byte("[].\n"), 0o600); err != nil {
				return nil, nil, err
			}
			conf := filepath.Join(s.dir, "rabbitmq.conf")
			said := fmt.Sprintf("listeners.tcp.default = 127.0.0.1:%d\n", s.port)
			said += strings.Join(append(settings, ""), "\n")
			if err := os.WriteFile(conf, []byte(said), 0o600); err != nil {
				return nil, nil, err
			}
			return []string{"/bin/sh", "-c", rabbit, "sh", s.path}, []string{
				"HOME=" + s.dir, "ERL_EPMD_PORT=" + strconv.Itoa(names),
				"ERL_EPMD_ADDRESS=127.0.0.1",
				"RABBITMQ_DIST_PORT=" + strconv.Itoa(freePort(s.t)),
				fmt.Sprintf("RABBITMQ_NODENAME=test%d@localhost", s.port),
				"RABBITMQ_NODE_PORT=", "RABBITMQ_CONFIG_FILE=" + conf,
				"RABBITMQ_CONF_ENV_FILE=" + none + ".env", "RABBITMQ_ENABLED_PLUGINS_FILE=" + none,
				"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"),
				"RABBITMQ_LOG_BASE=" + s.dir, "RABBITMQ_LOGS=-",
				"RABBITMQ_PID_FILE=" + filepath.Join(s.dir, "pid"),
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 " +
					"-kernel inet_dist_use_interface {127,0,0,1}",
			}, nil
		},
		ready: func(c net.Conn) bool { // it answers a wrong header with its own
			return strings.HasPrefix(line(c, "AMQP\x00\x00\x00\x00\n"), "AMQP")
		},
	})
}
