// Package codec compresses and encrypts the payloads of a store. [Wrap] puts a [Codec] around a
// store: whoever uses the wrapped store sees clear payloads, and the database has none. [New]
// returns the codec that this package brings. An application may have one of its own.
//
// # What is encoded
//
//   - Payloads: inputs, results, outputs, signals, checkpoints, variables, published values,
//     values of headers that workflow code sets, bodies of events. Also large payloads, which the
//     store keeps in rows of their own, and messages that have found no run.
//   - Failures of entries, with their messages, values and stacks; the reasons of entries; the
//     headers that a run is started with.
//   - The texts of a run that are in its head: the beginning of its failure, and why it is
//     suspended or waits.
//   - The values of settings, among them the keys by which the tokens of a database are signed.
//
// # What stays clear
//
//   - Names and keys: of workflows, steps, signals, variables, events, topics and limits; workflow
//     IDs, run IDs, keys of operations and limits, IDs of messages.
//   - Search attributes, because the store finds runs by them.
//   - Times, statuses, kinds, counts, and the sizes of payloads.
//   - Names of operators, and the reasons that they give for a setting.
//
// So nothing that is secret may be part of a name, key, ID or attribute. Payloads are clear in the
// memory of the process, in exports, in events that a publisher gets, and in memories of
// orchestrators that are no store.
//
// # What an encoded payload is bound to
//
// A payload is bound to its place: the database, the run, and the entry's sequence and kind. A
// large payload is bound to its number, and the entry that names it to that number. A message is
// bound to its kind, name, key and ID, and not to its receiver, which is not known when it is sent.
// A setting is bound to its kind and name.
//
// A payload that was copied to another place, or that was changed, is not decoded: the reader gets
// a [journal.CorruptError] that names the run and the entry, and an engine parks the run. An engine
// that cannot read a setting does not begin. Who may write to the database can still remove rows,
// put a row back to what it was before, or write clear rows: those are read as if they were written
// before the codec was used.
//
// # Keys
//
// [Keys] are lines of text, each with an ID and a secret. The first key encodes. Each of them
// decodes what it has encoded, by the ID that is stored with the payload. To rotate keys, give the
// new key to all programs as a further one, then make it the first. The old key stays as long as
// runs and settings that were written with it are kept: see the how-to page about encryption.
package codec
