// Package mail sends alerts by mail. It is the alert.Mailer of alert.Options.Mail.
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	smtp "github.com/wneessen/go-mail"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Sender sends mails through an SMTP server.
type Sender struct {
	host string
	from netmail.Address
	opts []smtp.Option
}

// A Mail is that of package alert.
type Mail = struct{ Address, ID, Subject, Text string }

// timeLimit is that of a mail.
const timeLimit = 20 * time.Second

// New returns the sender of a server: smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS. The scheme smtp
// demands STARTTLS, and its port is 587. The scheme smtps begins with TLS, and its port is 465.
// With the parameter tls=none nothing is encrypted, which is for a server on the same machine.
// Without a user it does not log in.
func New(server string) (*Sender, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, invalid("it is no URL") // the error would show the password
	}
	q := u.Query()
	from, err := netmail.ParseAddress(q.Get("from"))
	secure := cmp.Or(q.Get("tls"), "yes")
	port, wrong := strconv.Atoi(cmp.Or(u.Port(), map[string]string{
		"smtp": "587", "smtps": "465",
	}[u.Scheme], "0"))
	plain := u.Scheme == "smtp" && secure == "none"
	switch {
	case u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "" || u.Fragment != "":
		return nil, invalid("it is not of that form")
	case err != nil:
		return nil, invalid("its parameter from is no mail address")
	case secure != "yes" && !plain:
		return nil, invalid("its parameter tls is not valid: allowed is none, with smtp")
	case wrong != nil || port < 1 || port > 65535:
		return nil, invalid("its port is not valid")
	}
	s := &Sender{host: u.Hostname(), from: *from, opts: []smtp.Option{
		smtp.WithPort(port), smtp.WithTimeout(timeLimit),
		smtp.WithTLSConfig(&tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}),
	}}
	switch {
	case u.Scheme == "smtps":
		s.opts = append(s.opts, smtp.WithSSL())
	case plain:
		s.opts = append(s.opts, smtp.WithTLSPolicy(smtp.NoTLS))
	default:
		s.opts = append(s.opts, smtp.WithTLSPolicy(smtp.TLSMandatory))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s.opts = append(s.opts, smtp.WithUsername(u.User.Username()), smtp.WithPassword(password),
			smtp.WithSMTPAuth(smtp.SMTPAuthAutoDiscover))
	}
	if _, err := smtp.NewClient(s.host, s.opts...); err != nil {
		return nil, invalid(err.Error())
	}
	return s, nil
}

func invalid(wrong string) error {
	return &journal.Error{
		Code: journal.CodeInvalid, Op: "mail", Message: "the mail server is not valid: " + wrong,
		Hint: "allowed is smtp://USER:PASSWORD@HOST:587?from=ADDRESS, or smtps with port 465",
	}
}

// Mail sends a mail. The error of a server that refuses it for good is permanent.
func (s *Sender) Mail(ctx context.Context, mail Mail) error {
	m := smtp.NewMsg()
	m.FromMailAddress(&s.from)
	m.ToMailAddress(&netmail.Address{Address: mail.Address})
	m.Subject(mail.Subject)
	m.SetDate()
	m.SetMessageIDWithValue(mail.ID + "@perdure")
	m.SetBodyString(smtp.TypeTextPlain, mail.Text)
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	c, err := smtp.NewClient(s.host, s.opts...)
	if err == nil {
		err = c.DialAndSendWithContext(ctx, m)
	}
	if m.IsDelivered() { // whatever the server says at the end
		return nil
	}
	var e *smtp.SendError
	if errors.As(err, &e) && e.ErrorCode() >= 500 {
		return perdure.Permanent(fmt.Errorf("the mail server refused: %w", err))
	}
	return err
}
