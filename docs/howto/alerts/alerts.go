// Package alerts has the code of the how-to page about alerts.
package alerts

import (
	"os"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/alert/mail"
)

// Register lets an engine alert. The environment has the mail server.
func Register(eng *perdure.Engine, secret []byte) error {
	sender, err := mail.New(os.Getenv("PERDURE_SMTP")) // package alert/mail
	if err != nil {
		return err
	}
	return eng.Register(alert.Workflow(alert.Options{Secret: secret, Mail: sender}))
}
