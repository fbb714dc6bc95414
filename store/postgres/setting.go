package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/perdure/perdure/store"
)

const (
	// lockSettings makes the revisions visible in their order.
	lockSettings = `select pg_advisory_xact_lock($1, 0)`

	putSetting = `insert into perdure.settings (kind, name, value, by, reason, at, revision)
values ($1, $2, $3, $4, $5, $6, (select coalesce(max(revision), 0) + 1 from perdure.settings))
on conflict (kind, name) do update set value = excluded.value, by = excluded.by, reason = excluded.reason,
    at = excluded.at, revision = excluded.revision`

	selectSettings = `select kind, name, value, by, reason, at, revision from perdure.settings order by revision`
)

// lockSettings locks the settings, before the group locks anything else but its engine's row.
func (t *transaction) lockSettings() {
	if len(t.settings) > 0 {
		t.batch.add(lockSettings, settingLock)
	}
}

// set adds the writes of settings to the batch.
func (t *transaction) set() {
	for _, s := range t.settings {
		t.batch.add(putSetting, s.Kind, s.Name, s.Value, plainText(s.By), plainText(s.Reason),
			nanos(s.At))
	}
}

// readSettings adds a read of all settings to a batch.
func readSettings(b *batch, into *[]store.Setting) {
	b.add(selectSettings).each(func(rows pgx.Rows) error {
		var s store.Setting
		var at pgtype.Int8
		err := rows.Scan(&s.Kind, &s.Name, &s.Value, &s.By, &s.Reason, &at, &s.Revision)
		s.At = moment(at)
		*into = append(*into, s)
		return err
	})
}
