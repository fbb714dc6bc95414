// Package token makes and checks signed texts that carry what somebody may do: end a wait, or
// decide an approval.
//
//	text, err := token.MakeInStep(ctx, token.Claims{
//		Purpose: "callback", Run: runID, Subject: path, Expires: time.Now().Add(time.Hour),
//	})
//	claims, err := token.Check(ctx, frontEnd, "callback", text)
//
// A text has only A-Z, a-z, 0-9, - and _, so that it can be part of a link. There is exactly one
// text for given claims and a given key. Nobody can make or change one without a key of the
// database, but everybody who has it can read the claims: they are no secrets.
//
// # Keys
//
// Each database has keys of its own, as settings of the kind [SettingKind], one for each key. The
// first is made when the first token is. Engines that make one at the same time make several, and
// nothing is lost by that: the newest key signs, and all keys verify. [Rotate] adds a key, and
// [Revoke] removes one: then the tokens that it signed are forged ones. The keys are read from the
// store for each token, so both take effect at once and for all processes.
//
// A secret is shown nowhere: a [Key] prints as its ID only, and no list, error or check of the
// doctor has the settings of this kind. Whoever can read the database can read the secrets.
//
// # What it does not do
//
// A token may be used more than once, and is valid until it expires: what it is for has to decide
// whether it still counts. A token without Expires does not expire by itself.
package token
