package mail_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/alert/mail"
	"github.com/perdure/perdure/journal"
)

// serve is an SMTP server for one mail, which answers the recipient so, and says goodbye so; with
// an empty goodbye it hangs up when it has the mail. It returns its address, and the lines that it
// has heard.
func serve(t *testing.T, recipient, goodbye string) (string, <-chan []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	heard := make(chan []string, 1)
	go func() {
		var lines []string
		defer func() { heard <- lines }()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		say := func(text string) { fmt.Fprint(c, text+"\r\n") }
		say("220 test")
		inMail := false
		for in := bufio.NewScanner(c); in.Scan(); {
			line := in.Text()
			lines = append(lines, line)
			switch {
			case inMail && line == ".":
				inMail = false
				if say("250 ok"); goodbye == "" {
					return
				}
			case inMail:
			case strings.HasPrefix(line, "DATA"):
				inMail = true
				say("354 go on")
			case strings.HasPrefix(line, "RCPT"):
				say(recipient)
			case strings.HasPrefix(line, "QUIT"):
				say(goodbye)
				return
			default:
				say("250 ok")
			}
		}
	}()
	return l.Addr().String(), heard
}

// spec: R-31
func TestAMailIsSent(t *testing.T) {
	at, heard := serve(t, "250 ok", "221 bye")
	s, err := mail.New("smtp://" + at + "?tls=none&from=perdure@example.com")
	if err != nil {
		t.Fatal(err)
	}
	var _ alert.Mailer = s
	err = s.Mail(t.Context(), alert.Mail{
		Address: "ops@example.com", ID: "r1", Subject: "perdure: é\r\nBcc: evil@example.com",
		Text: "run b1\r\n.\r\nMAIL FROM:<evil@example.com>\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := <-heard
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"MAIL FROM:<perdure@example.com>", "RCPT TO:<ops@example.com>", "Message-ID: <r1@perdure>",
		"\n..\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "Bcc") {
			t.Errorf("a header that nobody has set: %s", line)
		}
	}
	if strings.Count(all, "RCPT TO") != 1 {
		t.Error(all)
	}
}

// spec: R-31
func TestAMailThatIsRefusedIsNotSentAgain(t *testing.T) {
	for answer, permanent := range map[string]bool{"550 no such user": true, "451 later": false} {
		at, heard := serve(t, answer, "221 bye")
		s, err := mail.New("smtp://" + at + "?tls=none&from=perdure@example.com")
		if err != nil {
			t.Fatal(err)
		}
		err = s.Mail(t.Context(), alert.Mail{Address: "ops@example.com", ID: "r1", Subject: "x"})
		if err == nil || strings.Contains(err.Error(), "the mail server refused") != permanent {
			t.Error(answer, err)
		}
		<-heard
	}
	s, err := mail.New("smtp://127.0.0.1:1?from=perdure@example.com") // demands STARTTLS
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mail(t.Context(), alert.Mail{Address: "ops@example.com", ID: "r1"}); err == nil {
		t.Error("no error of a server that is not there")
	}
}

// A server that has taken the mail may hang up.
//
// spec: R-31
func TestAMailThatIsTakenIsNotSentAgain(t *testing.T) {
	for _, goodbye := range []string{"", "421 busy", "no SMTP"} {
		at, heard := serve(t, "250 ok", goodbye)
		s, err := mail.New("smtp://" + at + "?tls=none&from=perdure@example.com")
		if err != nil {
			t.Fatal(err)
		}
		err = s.Mail(t.Context(), alert.Mail{Address: "ops@example.com", ID: "r1", Subject: "x"})
		if err != nil {
			t.Errorf("goodbye %q: %v", goodbye, err)
		}
		<-heard
	}
}

// spec: R-31
func TestAServerThatIsNotValidIsRefused(t *testing.T) {
	for _, server := range []string{
		"", "x", "smtp://", "http://mail.example.com?from=a@example.com", "smtp://mail.example.com",
		"smtp://mail.example.com?from=x", "smtp://mail.example.com:0?from=a@example.com",
		"smtp://mail.example.com:x?from=a@example.com", "smtp://m/x?from=a@example.com",
		"smtp://u:secret@m:99999?from=a@example.com", "smtps://m?tls=none&from=a@example.com",
		"smtp://m?tls=maybe&from=a@example.com", "smtp://u:secret@m\x7f?from=a@example.com",
	} {
		_, err := mail.New(server)
		if journal.CodeOf(err) != journal.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", server, err)
		}
	}
	for _, server := range []string{
		"smtp://u:p@mail.example.com?from=a@example.com",
		"smtps://mail.example.com?from=Perdure%20%3Ca@example.com%3E",
	} {
		if _, err := mail.New(server); err != nil {
			t.Error(err)
		}
	}
}
