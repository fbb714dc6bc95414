// Package server is the API over HTTP of an engine or a client: runs of every pattern, their
// schedules, approvals and dead letters, what operators do, and live events.
//
// A [Server] is an http.Handler. The program of package app serves it alone. An application
// mounts it in its own server, under any prefix, with http.StripPrefix. Mounted, it needs an
// [auth.Authenticator]. Without one, it answers only callers on the same machine, who are admins,
// and ignores the headers of proxies.
//
// The API is described by an OpenAPI document, which is made from this code, at /openapi.json. A
// page for readers is at /docs. A start or signal that is answered with success is durable.
//
// # Errors
//
// An error is a problem document (RFC 9457) with a code, which programs may compare, and often a
// hint: what to do next. A code is one of [journal.Error], or one of this package's own:
// unauthenticated, forbidden, too_many_failures, unsupported, foreign_host, foreign_origin.
package server
