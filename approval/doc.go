// Package approval lets a run, of any pattern, wait for the decision of people.
//
//	out, err := approval.Wait(ctx, approval.Ask{
//		Key: "discount", Title: "30 % for order 1001", Role: "manager", Within: 3 * day,
//		Remind: day, Escalate: []approval.Escalation{{After: 2 * day, Role: "director"}},
//	})
//	switch {
//	case err != nil:
//		return err
//	case out.Status == approval.Approved:
//		...
//
// [List] returns the open asks of all runs, the oldest first, and [Decide] decides one:
//
//	receipt, err := approval.Decide(ctx, client, runID, "discount", approval.Decision{
//		Approved: true, By: "ada", Role: "manager", Reason: "a good customer",
//	})
//
// On the command line these are perdure approvals list, approve and reject.
//
// # Who may decide
//
// The run's own code judges a decision when it takes it: the role, the form, the time, and that the
// person has not decided before. A decision that is not valid is refused with an error, and the ask
// stays open. A decision that is valid is recorded before its sender hears of it: who, in which
// role, when, why, with which data. [States] returns the asks of a run with their decisions, and so
// does the journal, also after the end.
//
// With a database, Role and By are what the caller asserts: whoever may write to the database may
// assert anything. The decision has [Asserted] as its source, and AssertedBy says who asserted it.
// Take both from the session of the user, and not from the form.
//
// [Token] makes a signed text that carries one decision of one person, for a link. [ByToken] shows
// the decision, and [DecideByToken] makes it.
//
// A quorum of n of m (Ask.Quorum, Ask.Of) needs n different people who approve. It is rejected when
// more than m-n have rejected. Without m, the first rejection rejects.
//
// A decision is a message with the name "Approve:KEY", which has a reply. A plain signal of such a
// name is refused where it is sent. If a message comes in another way, for example because it was
// sent by an older version, it is judged as any other, without a role.
//
// # Time
//
// A decision counts if it was made in time by the clock of its sender, also if the engine takes it
// later. When the time is over, the outcome is [Expired]. An escalation lets another role decide,
// too. [Ask.Remind] makes package alert remind the recipients of the rule of the workflow.
//
// # What a run shows
//
// A run publishes the [State] of each ask as "approval:KEY". While it has open ones, it has the
// search attribute "approval" with the value "open". If it continues as new, or is retried, while
// an ask is open, the next run asks anew, and a decision about the earlier ask is refused.
package approval
