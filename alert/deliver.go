package alert

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/kernel"
)

// Options say how alerts are sent.
type Options struct {
	// Secret signs webhooks. Without one no webhook is sent.
	Secret []byte
	// Internal are networks of internal addresses that webhooks may be sent to, on any port, also
	// by http. All other internal addresses are refused.
	Internal []netip.Prefix
	// Mail sends mails. Package alert/mail has one. Nil sends none.
	Mail Mailer
}

// A Mailer sends a mail. The ID is the same for each attempt. An error that is marked by
// perdure.Permanent ends the attempts.
type Mailer interface {
	Mail(ctx context.Context, m Mail) error
}

// A Mail is a text for a mail address. Address, ID and Subject have one line each.
type Mail = struct{ Address, ID, Subject, Text string }

// A delivery is one alert to one recipient.
type delivery struct {
	To    string `json:"to"`
	Alert Alert  `json:"alert"`
}

// A sent is the result of a delivery.
type sent struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // of the answer of a webhook
}

// sending is the policy of a delivery: for some two hours.
var sending = perdure.Retry{Attempts: 7, First: 5 * time.Second, Factor: 5, Cap: time.Hour}

// delivery defines the workflow of deliveries.
func (x *watcher) delivery(o Options) {
	hook := newWebhook(o)
	perdure.Define(deliveryName, func(ctx context.Context, d delivery) (sent, error) {
		info, err := perdure.InfoOf(ctx)
		if err != nil {
			return sent{}, err
		}
		d.Alert.ID = info.RunID
		return perdure.Step(ctx, "send", func(ctx context.Context) (sent, error) {
			return o.send(ctx, hook, d)
		}, sending)
	}, own{&x.deliver}, deadletter.Automatic(true), perdure.About{
		Description: "Sends an alert to a recipient",
	})
}

func (o Options) send(ctx context.Context, hook *webhook, d delivery) (out sent, err error) {
	if err := checkRecipient(d.To); err != nil {
		return out, perdure.Permanent(err)
	}
	if address, is := mailAddress(d.To); !is {
		out.Status, err = hook.send(ctx, d.To, d.Alert)
	} else if o.Mail != nil {
		err = o.Mail.Mail(ctx, d.Alert.mail(address))
	} else {
		err = perdure.Permanent(errors.New("no mail server is set: set Options.Mail of package " +
			"alert, or PERDURE_SMTP of the program"))
	}
	out.At = kernel.Now(ctx).Round(0).UTC()
	return out, err
}
