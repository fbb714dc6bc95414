package judge

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// ReadMoney reads the table that steps in transactions write.
func ReadMoney(ctx context.Context, db *sql.DB) (out []Money, err error) {
	rows, err := db.QueryContext(ctx, `select label, number, amount from torture_money`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m Money
		if err := rows.Scan(&m.Label, &m.Number, &m.Amount); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// money checks that money is conserved, and that each transaction counts once.
func (b *bench) money(seen map[string]map[int64]bool) {
	sum := int64(0)
	rows := map[string][]Money{}
	for _, m := range b.Money {
		if strings.HasSuffix(m.Label, held) {
			b.held[m.Label] += m.Amount
			continue
		}
		sum += m.Amount
		rows[m.Label] = append(rows[m.Label], m)
	}
	if sum != 0 {
		b.wrong("money is not conserved: %d", sum)
	}
	for label, all := range rows {
		if len(all) != 2 || all[0].Number != all[1].Number {
			b.wrong("the transaction of %s counts %d times", label, len(all)/2)
		}
		for n := range seen[label] {
			if n != all[0].Number && len(seen[label]) == 1 {
				b.wrong("the code saw %d of %s, and its transaction has %d", n, label,
					all[0].Number)
			}
		}
	}
	b.holds()
	for _, c := range b.Cases {
		if c.Program.StartsInTx() && len(rows[play.StartLabel(c.ID)]) == 0 {
			b.wrong("%s is there, and the rest of the transaction that started it is not", c.ID)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(seen)) {
		if strings.HasSuffix(label, "/do") && b.isTx(label) && len(rows[label]) == 0 {
			b.wrong("the code saw a result of %s, and its transaction is not there", label)
		}
	}
}

// isTx reports whether a label is that of a step in a transaction.
func (b *bench) isTx(label string) bool {
	return len(b.calls[label]) > 0 && strings.Contains("/"+b.calls[label][0].Step, "/tx")
}

// held is the end of the labels of bookings of TCC participants.
const held = "/held"

// holds checks that a TCC has booked with all of its participants, or with none.
func (b *bench) holds() {
	for _, c := range b.Cases {
		f, _ := program.DeclarationOf(c.Program.Workflow)
		if !f.NeedsTx() || len(b.byID[c.ID]) == 0 {
			continue
		}
		want := int64(0)
		if b.byID[c.ID][0].Head.Status == journal.Confirmed {
			want = play.Confirmed
		}
		if slices.Contains(c.Program.Acts, "terminate") {
			continue // it may leave what was tried
		}
		for i := range f.Steps {
			if label := program.Label(c.ID, i, 0, held[1:]); b.held[label] != want {
				b.wrong("%s has booked %d, not %d", label, b.held[label], want)
			}
		}
	}
}
