// Package serving runs an engine and the API over HTTP in one process, as a configuration says.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/alert/mail"
	"github.com/perdure/perdure/app/internal/config"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server"
	"github.com/perdure/perdure/server/auth"
	"github.com/perdure/perdure/server/mcp"
	"github.com/perdure/perdure/server/ui"
	"github.com/perdure/perdure/steplog"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/telemetry"
	"github.com/perdure/perdure/telemetry/otlp"
	"github.com/perdure/perdure/telemetry/prometheus"
)

// Options set what a process serves.
type Options struct {
	Config    config.Config
	Values    []config.Value // of the Config, to be shown
	Program   string         // the command that runs this program
	Workflows []perdure.Definition
	// Alerts is set if the workflows have one that alerts.
	Alerts bool
	// AnyPort takes a free port if the one of the address is taken.
	AnyPort bool
	Log     io.Writer
	// Begun is called when the API listens, or with an empty address if it is off.
	Begun func(url string)
	// Ending is called when ctx has ended.
	Ending func()
	// Beside is called beside the engine when that begins; nil for nothing. An error is logged.
	Beside func(context.Context, *perdure.Engine) error
	// Kill is [server.Options.Kill].
	Kill func()
}

// Run executes the workflows and serves the API until ctx ends. It ends when steps in flight have,
// or when the drain of the configuration is over.
func Run(ctx context.Context, o Options) error {
	at, err := place.Parse(o.Program, o.Config.Store)
	if err != nil {
		return err
	}
	if err := at.Itself("serve"); err != nil {
		return err
	}
	db, err := at.Open(ctx, place.Engine)
	if err != nil {
		return err
	}
	defer db.Close()
	n := &node{o: o, at: at}
	if n.store, err = o.Config.Encryption.Wrap(ctx, db); err != nil {
		return err
	}
	defer n.close()
	if err := n.prepare(ctx); err != nil {
		return err
	}
	return at.Explain(n.run(ctx))
}

// A node is one process with an engine and an API.
type node struct {
	o       Options
	at      place.Place
	store   store.Store
	engine  *perdure.Engine
	handler http.Handler // nil if the API is off
	log     *slog.Logger
	closers []func() error
}

// close ends what the node has begun, the last first.
func (n *node) close() {
	for _, c := range slices.Backward(n.closers) {
		if err := c(); err != nil {
			n.log.Warn("perdure: a part did not end in order", "error", err)
		}
	}
}

func (n *node) prepare(ctx context.Context) (err error) {
	c := n.o.Config
	n.log = logger(c.Log, n.o.Log)
	feed, summary := &server.Feed{}, observe.NewSummary()
	options := c.Engine
	options.Logger = slog.New(slog.DiscardHandler) // its observer has more
	keepLines(n.log)
	options.Observers = append(options.Observers, observe.Log(n.log, c.Log.Level))
	meters, scrape, err := n.measured(&options)
	if err != nil {
		return err
	}
	if c.Listen.Address != config.Off {
		options.Observers = append(options.Observers, feed.Observer(), summary.Observer())
	}
	if err := n.traced(ctx, &options); err != nil {
		return err
	}
	if !c.Switches.DeadLetters {
		options.DeadLetters = func(context.Context, deadletter.Letter) error { return nil }
	}
	if n.engine, err = perdure.New(n.store, options); err != nil {
		return err
	}
	if err := n.register(); err != nil {
		return err
	}
	if c.Listen.Address == config.Off {
		return nil
	}
	if meters != nil {
		stop, err := telemetry.Watch(meters, n.engine.Load)
		if err != nil {
			return err
		}
		n.closers = append(n.closers, stop)
	}
	return n.serve(server.Options{Feed: feed, Summary: summary, Metrics: scrape})
}

// measured adds the observer of metrics, if they are on. It returns the handler of /metrics.
func (n *node) measured(options *perdure.Options) (metric.MeterProvider, http.Handler, error) {
	if c := n.o.Config; !c.Switches.Metrics || c.Listen.Address == config.Off {
		return nil, nil, nil
	}
	meters, scrape, err := prometheus.New()
	if err != nil {
		return nil, nil, err
	}
	n.closers = append(n.closers, func() error { return meters.Shutdown(context.Background()) })
	o, err := telemetry.Metrics(meters)
	options.Observers = append(options.Observers, o)
	return meters, scrape, err
}

// traced sends traces to where the OTEL_ variables say, if they are on and one says so.
func (n *node) traced(ctx context.Context, options *perdure.Options) error {
	if !n.o.Config.Traces || !otlp.Configured() {
		return nil
	}
	tracers, err := otlp.New(ctx)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	n.closers = append(n.closers, func() error {
		late, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		return tracers.Shutdown(late)
	})
	telemetry.Trace(options, tracers)
	return nil
}

// keepLines lets steps keep their log lines, which bodies log by the default logger. A logger that
// the application has set goes on beneath.
func keepLines(log *slog.Logger) {
	handler := slog.Default().Handler()
	// The standard library's own handler writes to what SetDefault replaces: it cannot be wrapped.
	if fmt.Sprintf("%T", handler) == "*slog.defaultHandler" {
		handler = log.Handler()
	}
	slog.SetDefault(slog.New(steplog.Handler(handler)))
}

// register registers the workflows, and those of the program itself.
func (n *node) register() error {
	own := []perdure.Definition{schedule.Workflow(), batch.Workflow()}
	if !n.o.Alerts {
		a := n.o.Config.Alerts
		options := alert.Options{Secret: []byte(a.Secret), Internal: a.Internal}
		if a.SMTP != "" {
			sender, err := mail.New(a.SMTP)
			if err != nil {
				return fmt.Errorf("alerts.smtp: %w", err)
			}
			options.Mail = sender
		}
		own = append(own, alert.Workflow(options))
	}
	return n.engine.Register(append(slices.Clip(n.o.Workflows), own...)...)
}

// serve makes the handler of the API.
func (n *node) serve(options server.Options) error {
	c := n.o.Config
	options.Hosts, options.Prefix = hostsOf(c.Listen), c.Listen.Prefix
	options.Address, options.Program = n.at.String(), n.o.Program
	options.Redact, options.Logger, options.Stale = c.Redact, n.log, c.Stale
	options.Kill = n.o.Kill
	for _, v := range n.o.Values {
		options.Configuration = append(options.Configuration, server.ConfigurationKey{
			Name: v.Key.Name, Value: v.Text, Default: v.Default(), From: v.From,
			IsChanged: v.Text != v.Default(), Variable: v.Key.Env, About: v.Key.About,
		})
	}
	if len(c.Tokens) > 0 {
		tokens := &auth.Tokens{}
		if err := tokens.Set(c.Tokens); err != nil {
			return err
		}
		options.Authenticator = tokens
	}
	if c.Audit == "" {
		// What is logged of the engine does not decide about the audit.
		log := logger(config.Log{Format: c.Log.Format, Level: slog.LevelInfo}, n.o.Log)
		options.Audit = func(act server.Act) { act.LogTo(log) }
	} else {
		audit, err := openAudit(c.Audit, n.log)
		if err != nil {
			return err
		}
		n.closers = append(n.closers, audit.file.Close)
		options.Audit = audit.add
	}
	if c.Switches.MCP {
		options.Agents = mcp.New
	}
	if c.Switches.Page && c.Switches.API {
		page, err := ui.New(c.Listen.Prefix)
		if err != nil {
			return err
		}
		options.Page = page
	}
	if c.Listen.Certificate != "" {
		if _, err := tls.LoadX509KeyPair(c.Listen.Certificate, c.Listen.Key); err != nil {
			return fmt.Errorf("listen.certificate: %w", err)
		}
	}
	s, err := server.New(n.engine, n.store, options)
	if err != nil {
		return err
	}
	n.handler = switched(c.Switches, s)
	if c.Listen.Prefix != "" {
		n.handler = below(c.Listen.Prefix, options.Page != nil, n.handler)
	}
	return nil
}

// hostsOf returns the names by which the API may be called. With credentials and without names, all
// are allowed.
func hostsOf(l config.Listen) []string {
	if host, _, err := net.SplitHostPort(l.Address); err == nil && len(l.Hosts) > 0 {
		return append(slices.Clip(l.Hosts), host, "localhost", "127.0.0.1", "::1")
	}
	return l.Hosts
}

// switched leaves out the parts that are switched off.
func switched(on config.Switches, h http.Handler) http.Handler {
	off := server.NotFound("this part of the server is switched off")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.Path
		switch {
		case !on.Health && (p == "/healthz" || p == "/readyz"), !on.Metrics && p == "/metrics",
			!on.API && strings.HasPrefix(p, "/api/"):
			off.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// below has the addresses of a handler below a prefix. The prefix alone leads to the page, if there
// is one.
func below(prefix string, page bool, h http.Handler) http.Handler {
	h = http.StripPrefix(prefix, h)
	outside := server.NotFound("the addresses of this server begin with " + prefix + "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page && r.URL.EscapedPath() == prefix && r.Method == http.MethodGet {
			http.Redirect(w, r, prefix+"/", http.StatusSeeOther)
			return
		}
		if !strings.HasPrefix(r.URL.EscapedPath(), prefix+"/") {
			outside.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// stopWithin is how long answers may take to end.
const stopWithin = 5 * time.Second

// run executes and serves until ctx ends, or until one of the two fails.
func (n *node) run(ctx context.Context) error {
	unhear := context.AfterFunc(ctx, n.o.Ending)
	defer unhear()
	if n.handler == nil {
		n.o.Begun("")
		return n.engine.Run(ctx)
	}
	l, err := n.listen()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := server.HTTPServer(n.handler)
	s.ErrorLog = slog.NewLogLogger(n.log.Handler(), slog.LevelWarn)
	answers, end := context.WithCancel(context.WithoutCancel(ctx))
	s.BaseContext = func(net.Listener) context.Context { return answers }
	served := make(chan error, 1)
	go func() {
		defer stop()
		if c := n.o.Config.Listen; c.Certificate != "" {
			served <- s.ServeTLS(l, c.Certificate, c.Key)
			return
		}
		served <- s.Serve(l)
	}()
	n.o.Begun(n.url(l))
	if n.o.Beside != nil {
		go func() {
			if err := n.o.Beside(ctx, n.engine); err != nil && ctx.Err() == nil {
				n.log.Warn("perdure: what goes on beside the engine has failed", "error", err)
			}
		}()
	}
	failed := n.engine.Run(ctx)
	end() // live events
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := s.Shutdown(late); err != nil {
		_ = s.Close() // what is cut off now had its time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		failed = errors.Join(failed, err)
	}
	return failed
}

// listen opens the address. If its port is taken, it opens a free one where that is allowed.
func (n *node) listen() (net.Listener, error) {
	address := n.o.Config.Listen.Address
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	host, _, bad := net.SplitHostPort(address)
	if n.o.AnyPort && bad == nil && isTaken(err) {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err == nil {
			fmt.Fprintf(n.o.Log, "%s is taken: another process listens there\n", address)
			return l, nil
		}
	}
	return nil, &perdure.Error{
		Code: journal.CodeInvalid, Op: "listen on " + address, Err: err,
		Hint: "--addr names another address; --addr off serves no API",
	}
}

// url returns the address of the API for people.
func (n *node) url(l net.Listener) string {
	c := n.o.Config.Listen
	scheme := "http"
	if c.Certificate != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + c.Prefix
}

func logger(c config.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level}
	switch c.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options))
	case "json":
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.DiscardHandler)
}
