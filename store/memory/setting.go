package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/perdure/perdure/store"
)

// A settingKey identifies a setting.
type settingKey struct{ kind, name string }

// set writes the settings of a change.
func (tx *transaction) set(_ int, c *store.Change) error {
	d := tx.data
	for _, s := range c.Settings {
		at := settingKey{s.Kind, s.Name}
		before, there := d.settings[at]
		revision := d.revision
		tx.undo = append(tx.undo, func() {
			d.revision = revision
			if d.settings[at] = before; !there {
				delete(d.settings, at)
			}
		})
		d.revision++
		s.Revision, s.At, s.Value = d.revision, stored(s.At), bytes.Clone(s.Value)
		d.settings[at] = s
		tx.news = true
	}
	return nil
}

// allSettings returns the settings by revision.
func allSettings(d *data) []store.Setting {
	return slices.SortedFunc(maps.Values(d.settings), func(a, b store.Setting) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
}
