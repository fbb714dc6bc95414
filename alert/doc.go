// Package alert tells people and systems when runs fail or stand still, by webhook and by mail.
//
// Rules are settings of the store: [Set] and the command "perdure alerts" change them while runs go
// on, for one workflow or, as the default, for all that have no rule of their own. An engine that
// registers [Workflow] obeys them:
//
//	err := eng.Register(alert.Workflow(alert.Options{Secret: secret}))
//
// Register it with all engines of a store: only an engine that has it tells of the ends of its
// runs. A durable workflow counts the ends, each once, and looks each minute for runs that stand
// still. Each recipient of an alert has a run of its own, which sends it with retries. If that
// fails for good, it is a dead letter of that run, and nothing else notices. Without a rule nothing
// is counted, and nobody looks.
//
// # Webhooks
//
// A webhook is a POST of an [Alert] as JSON, signed as Standard Webhooks says: the header
// webhook-signature is "v1," and the base64 of the HMAC-SHA256 of "ID.TIME.BODY", where ID and TIME
// are the headers webhook-id and webhook-timestamp. The ID is the same for each attempt. Internal
// addresses are refused when they are dialled, whatever name they have, and so are redirects.
package alert
