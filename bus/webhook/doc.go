// Package webhook carries CloudEvents over HTTP: a [Handler] takes them in, and a [Sender] sends
// them out. Both speak the three modes of the HTTP binding: an event in headers and a body
// (binary), an event as JSON (structured), and a list of events as JSON (batched); a Sender makes
// no batches. Events come out as they went in.
//
// Who has no broker connects two programs with it, and others connect with what their platforms
// have:
//
//	inbound := &webhook.Handler{Handle: gateway, Authorize: hasToken}
//	http.Handle("/events", inbound)
//
//	outbound := &webhook.Sender{URLs: map[string]string{"orders": "https://shop.example/events"}}
//	options.Publisher = bus.Publisher(outbound, "orders")
//
// # Headers
//
// In binary mode, attributes are percent-encoded, as version 1.0.2 of the binding demands. Some
// senders and receivers do neither, such as the CloudEvents SDK for Go (v2.16.2). What such a
// sender sends is read, unless a value has a percent sign before two hexadecimal digits. Such a
// receiver gets %20 for a space. In structured mode there is no such difference.
package webhook
