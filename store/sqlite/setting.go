package sqlite

import (
	"database/sql/driver"

	"github.com/perdure/perdure/store"
)

const (
	putSetting = `insert into perdure_settings (kind, name, value, by, reason, at, revision)
values (?, ?, ?, ?, ?, ?, (select coalesce(max(revision), 0) + 1 from perdure_settings))
on conflict (kind, name) do update set value = excluded.value, by = excluded.by, reason = excluded.reason,
    at = excluded.at, revision = excluded.revision`

	selectSettings = `select kind, name, value, by, reason, at, revision from perdure_settings order by revision`

	selectRevision = `select max(revision) from perdure_settings`
)

// set writes the settings of a change.
func (tx *transaction) set(c *store.Change) error {
	for _, s := range c.Settings {
		var value driver.Value
		if s.Value != nil {
			value = s.Value
		}
		if _, err := tx.exec(putSetting, s.Kind, s.Name, value, s.By, s.Reason,
			nanos(s.At)); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the settings by revision.
func settings(c *conn) (all []store.Setting, err error) {
	err = c.query(func(row []driver.Value) error {
		s := store.Setting{
			Kind: str(row[0]), Name: str(row[1]), By: str(row[3]), Reason: str(row[4]),
			At: moment(row[5]), Revision: integer(row[6]),
		}
		if row[2] != nil {
			s.Value = append([]byte{}, blob(row[2])...)
		}
		all = append(all, s)
		return nil
	}, selectSettings)
	return all, err
}

// revision reads the last revision of a setting.
func (t *taking) revision() error {
	v, err := t.value(selectRevision)
	t.out.Settings = integer(v)
	return err
}
