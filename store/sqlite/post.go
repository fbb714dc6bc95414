package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The statements of a post. The message takes the next number of the inbox, and then the head
// counts it. Each statement writes one row with known values. A statement that selects the row that
// it inserts, or returns the row that it updates, could fail halfway. So SQLite keeps a copy of
// each page that it changes.
const (
	selectReceiver     = `select ` + receiverColumns + ` from perdure_heads where number = ?`
	selectOpenReceiver = `select ` + receiverColumns +
		` from perdure_heads where workflow_id = ? and ended is null`

	// receiverColumns are the columns of a head, the number of messages that its owner was given,
	// and the run that holds the messages that were not taken.
	receiverColumns = headColumns + `, given, coalesce(inbox, number)`

	// selectNewest selects the run that ended last among the runs of a workflow ID that no open run
	// has.
	selectNewest = `select ` + receiverColumns + ` from perdure_heads
where workflow_id = ? and ended is not null order by ended desc, number desc limit 1`

	// A message is not written if the chain has a message with the same ID.
	insertMessage = `insert into perdure_messages (holder, number, chain, id, kind, scope, name, key, occ, at, spill, detail, data)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)` + unlessKnown
	unlessKnown = ` on conflict (chain, id) where id is not null do nothing`

	countMail    = `update perdure_heads set mail = ?, given = ? where number = ?`
	countAndWake = `update perdure_heads set mail = ?, given = ?, wake = ? where number = ?`
	markOrdered  = `update perdure_heads set ordered = max(ordered, ?) where number = ?`

	insertSpilled = `insert or replace into perdure_spilled (id, data) values (?, ?)`

	// selectKnown looks for a message in a chain.
	selectKnown = `select number from perdure_messages where chain = ? and id = ?`
)

var selectReceivers = listed(`select `+receiverColumns+` from perdure_heads where number`, "")

// The statements for messages that find no run.
const (
	selectWaiting = `select number from perdure_unrouted where workflow_id = ? and id = ? and until > ?`

	insertUnrouted = `insert into perdure_unrouted (workflow_id, until, id, kind, scope, name, key, occ, at, spill, detail, data)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning number`

	selectWaitingFor = `select number from perdure_unrouted where workflow_id = ? and until > ?`

	moveUnrouted = `insert into perdure_messages (holder, number, chain, id, kind, scope, name, key, occ, at, spill, detail, data)
select ?, ?, ?, id, kind, scope, name, key, occ, at, spill, detail, data from perdure_unrouted where number = ?` + unlessKnown + ` returning kind, detail`

	deleteUnrouted = `delete from perdure_unrouted where number = ?`

	selectUnrouted = `select coalesce(id, '') from perdure_unrouted where number = ?`
)

// send posts the messages of a change. If the group was written before, it only sets their
// verdicts.
func (tx *transaction) send(c *store.Change) error {
	if !hasPosts(c) {
		return nil
	}
	for _, all := range [][]store.Post{c.Posts, c.Else} {
		for i := range all {
			all[i].Verdict, all[i].To, all[i].Number = store.Written, journal.Head{}, 0
		}
	}
	post := tx.post
	if tx.there != nil {
		post = tx.tellPost
	}
	for _, all := range sent(c) {
		for i := range all {
			if err := post(&all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasPosts reports whether a change has messages. Most changes have none.
func hasPosts(c *store.Change) bool { return len(c.Posts) > 0 || len(c.Else) > 0 }

// sent returns the posts of a change that are to be written.
func sent(c *store.Change) [2][]store.Post {
	switch {
	case !c.Create || c.Verdict == store.Written:
		return [2][]store.Post{c.Posts, nil}
	case c.Verdict == store.Taken:
		return [2][]store.Post{nil, c.Else}
	}
	return [2][]store.Post{c.Posts, c.Else}
}

// A receiver is a run that a message is for.
type receiver struct {
	journal.Head
	given int64       // how many messages its owner was given
	inbox int64       // the run that holds the messages that were not taken
	woken bool        // woken by a message of the group
	dirty bool        // has messages of the group
	order store.Order // what they order
}

// chain returns the number of the chain. Within a chain, a message ID counts once.
func (r *receiver) chain() int64 { return int64(cmp.Or(r.Chain, r.Number)) }

// isThere reports whether the run exists.
func (r *receiver) isThere() bool { return r.Number != 0 }

// isOpen reports whether the run exists and has not ended.
func (r *receiver) isOpen() bool { return r.isThere() && r.Ended.IsZero() }

// receiver returns the run that a message is for: the run with the number, or the open run of its
// chain that the message follows to, or the run that the workflow ID stands for. Within a group
// there is one receiver for each run. It counts the messages that the group has posted to the run.
func (tx *transaction) receiver(p *store.Post) (*receiver, error) {
	if p.Run == 0 {
		r, err := tx.receiverOf(selectOpenReceiver, p.WorkflowID)
		if err != nil || r.isThere() {
			return r, err
		}
		return tx.receiverOf(selectNewest, p.WorkflowID)
	}
	r, err := tx.receivers[p.Run], error(nil)
	if r == nil {
		r, err = tx.receiverOf(selectReceiver, int64(p.Run))
	}
	if err != nil || !r.isThere() || r.isOpen() || !p.Follow.Leads(r.Status) {
		return r, err
	}
	next, err := tx.receiverOf(selectOpenReceiver, r.WorkflowID)
	if err == nil && next.isThere() && next.chain() == r.chain() {
		r = next
	}
	return r, err
}

// receiverOf returns the run that a statement finds.
func (tx *transaction) receiverOf(statement string, by driver.Value) (*receiver, error) {
	r := new(receiver)
	err := tx.query(func(row []driver.Value) error {
		*r = tx.readReceiver(row)
		return nil
	}, statement, by)
	if err != nil || !r.isThere() {
		return r, err
	}
	if known := tx.receivers[r.Number]; known != nil {
		return known, nil
	}
	tx.receivers[r.Number] = r
	return r, nil
}

func (tx *transaction) readReceiver(row []driver.Value) receiver {
	return receiver{
		Head: tx.store.head(row), given: integer(row[headWidth]), inbox: integer(row[headWidth+1]),
	}
}

// meet reads the receivers of all messages that are for runs by number, many with each statement.
func (tx *transaction) meet() error {
	var numbers []driver.Value
	count := 0
	for i := range tx.group.Changes {
		c := &tx.group.Changes[i]
		if !hasPosts(c) {
			continue
		}
		for _, posts := range sent(c) {
			count += len(posts)
			for j := range posts {
				if n := posts[j].Run; n != 0 {
					numbers = append(numbers, int64(n))
				}
			}
		}
	}
	if count == 0 {
		return nil
	}
	tx.receivers = make(map[journal.Number]*receiver, count)
	for chunk := range slices.Chunk(numbers, runsAtATime) {
		sql, args := selectReceivers.of(chunk)
		err := tx.query(func(row []driver.Value) error {
			r := tx.readReceiver(row)
			tx.receivers[r.Number] = &r
			return nil
		}, sql, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// part writes the counts of posted messages into the heads.
func (tx *transaction) part() (err error) {
	for _, r := range tx.posted {
		if r.woken {
			_, err = tx.exec(countAndWake, r.Mail, r.given, nanos(r.Wake), int64(r.Number))
		} else {
			_, err = tx.exec(countMail, r.Mail, r.given, int64(r.Number))
		}
		if err == nil && r.order != store.NoOrder {
			_, err = tx.exec(markOrdered, int64(r.order), int64(r.Number))
		}
		if err != nil {
			return err
		}
	}
	tx.posted, tx.receivers = tx.posted[:0], nil
	return nil
}

// post delivers one message, or sets the verdict for a message that cannot be delivered.
func (tx *transaction) post(p *store.Post) error {
	if tx.resent {
		if there, err := tx.postedAgain(p); err != nil || there {
			return err
		}
	}
	r, err := tx.receiver(p)
	if err != nil {
		return err
	}
	if p.Unrouted != 0 {
		return tx.move(p, r)
	}
	values, err := messageValues(&p.Message)
	if err != nil {
		return err
	}
	if !r.isOpen() {
		return tx.undelivered(p, r, values)
	}
	values[0], values[1], values[2] = r.inbox, r.Mail+1, r.chain()
	rows, err := tx.exec(insertMessage, values...)
	if err != nil {
		return err
	}
	if rows == 0 {
		_, err = tx.known(p, r, values[3])
		return err
	}
	if err := tx.keep(&p.Message); err != nil {
		return err
	}
	if tx.group.Engine != 0 && r.Owner == tx.group.Engine && r.given == r.Mail {
		// The engine learns of the message by the verdict.
		r.given++
	}
	tx.count(p, r)
	return nil
}

// count counts a message that was put into the inbox, and makes the run due if the message may wake
// it. The head is written once, when the group has posted everything.
func (tx *transaction) count(p *store.Post, r *receiver) {
	r.Mail++
	r.order = max(r.order, store.OrderOf(&p.Message))
	now := stored(tx.group.Now)
	if r.Owner == 0 && (r.Cause == "" || p.Force) && (r.Wake.IsZero() || r.Wake.After(now)) {
		r.Wake, r.woken = now, true
	}
	if !r.dirty {
		tx.posted = append(tx.posted, r)
		r.dirty = true
	}
	p.Verdict, p.To, p.Number = store.Delivered, r.Head, r.Mail
}

// messageValues returns the values of a message's row. The first three come from the receiver and
// are left empty. The others are the sender's ID and the fields of an entry.
func messageValues(e *journal.Entry) ([]driver.Value, error) {
	id, detail := "", e.Detail
	if detail != nil && detail.Message != "" {
		rest := *detail
		id, rest.Message = rest.Message, ""
		if detail = &rest; reflect.ValueOf(rest).IsZero() {
			detail = nil
		}
	}
	text, err := journal.EncodeDetail(detail)
	if err != nil {
		return nil, &store.DataError{Err: fmt.Errorf("the detail of a message: %w", err)}
	}
	data := e.Data
	if e.Spill != 0 {
		data = nil
	}
	return []driver.Value{
		nil, nil, nil, orNull(id), int64(e.Kind), orNull(e.Op.Scope), orNull(e.Op.Name),
		orNull(e.Op.Key), orNull(int64(e.Op.Occ)),
		nanos(e.At), orNull(int64(e.Spill)), orNull(string(text)), data,
	}, nil
}

// keep stores a large payload that comes with a message or entry.
func (tx *transaction) keep(e *journal.Entry) error {
	if e.Spill == 0 || e.Data == nil {
		return nil
	}
	_, err := tx.exec(insertSpilled, int64(e.Spill), e.Data)
	return err
}

// undelivered judges a message that finds no open run. It keeps a message for a workflow ID if the
// message may wait.
func (tx *transaction) undelivered(p *store.Post, r *receiver, values []driver.Value) error {
	if known, err := tx.known(p, r, values[3]); err != nil || known {
		return err
	}
	switch {
	case p.Run != 0 && r.isThere():
		p.Verdict, p.To = store.Closed, r.Head
		return nil
	case p.Run != 0 || p.Until.IsZero():
		p.Verdict = store.Nobody
		return nil
	}
	values[1], values[2] = p.WorkflowID, nanos(p.Until)
	number, err := tx.value(insertUnrouted, values[1:]...)
	if err != nil {
		return err
	}
	p.Verdict, p.Number = store.Unrouted, integer(number)
	tx.unrouted = true
	return tx.keep(&p.Message)
}

// known reports whether a message with that ID has come before, to the chain of its receiver or to
// the unrouted messages. If so, it sets the verdict.
func (tx *transaction) known(p *store.Post, r *receiver, id driver.Value) (bool, error) {
	if id == nil {
		return false, nil
	}
	verdict, to := store.Delivered, r.Head
	number, err := tx.value(selectKnown, r.chain(), id)
	if err == nil && number == nil && p.Run == 0 {
		verdict, to = store.Unrouted, journal.Head{}
		number, err = tx.value(selectWaiting, p.WorkflowID, id, nanos(tx.group.Now))
	}
	if err != nil || number == nil {
		return false, err
	}
	if !tx.resent {
		verdict = store.Duplicate
	}
	p.Verdict, p.To, p.Number = verdict, to, integer(number)
	return true, nil
}

// move delivers an unrouted message. It drops the message if the run has it already.
func (tx *transaction) move(p *store.Post, r *receiver) error {
	there, err := tx.value(selectUnrouted, p.Unrouted)
	switch {
	case err != nil:
		return err
	case !r.isThere() || there == nil && !tx.resent:
		p.Verdict = store.Nobody
		return nil
	// The group moved it itself when it was sent before.
	case there == nil:
		p.Verdict, p.To = store.Delivered, r.Head
		return nil
	}
	id := orNull(str(there))
	known := driver.Value(nil)
	if id != nil {
		known, err = tx.value(selectKnown, r.chain(), id)
	}
	switch {
	case err != nil:
		return err
	case known != nil:
		p.Verdict, p.To = store.Duplicate, r.Head
	case !r.isOpen():
		p.Verdict, p.To = store.Closed, r.Head
		return nil
	default:
		if err := tx.query(func(row []driver.Value) error {
			// Of a detail that is not readable, the kind counts.
			detail, _ := journal.DecodeDetail([]byte(str(row[1])))
			r.order = max(r.order, store.OrderOf(&journal.Entry{
				Kind: journal.Kind(integer(row[0])), Detail: detail,
			}))
			return nil
		}, moveUnrouted, r.inbox, r.Mail+1, r.chain(), p.Unrouted); err != nil {
			return err
		}
		tx.count(p, r)
	}
	_, err = tx.exec(deleteUnrouted, p.Unrouted)
	return err
}

// deliver delivers to a new run the messages that waited for its workflow ID.
func (tx *transaction) deliver(c *store.Change) error {
	var waiting []int64
	err := tx.query(func(row []driver.Value) error {
		waiting = append(waiting, integer(row[0]))
		return nil
	}, selectWaitingFor, c.Head.WorkflowID, nanos(tx.group.Now))
	if err != nil || len(waiting) == 0 {
		return err
	}
	slices.SortFunc(waiting, cmp.Compare)
	tx.receivers = map[journal.Number]*receiver{}
	r, err := tx.receiver(&store.Post{Run: c.Run})
	if err != nil {
		return err
	}
	for _, number := range waiting {
		if err := tx.move(&store.Post{Run: c.Run, Unrouted: number}, r); err != nil {
			return err
		}
	}
	c.Found = r.Head
	return tx.part()
}
