package storetest

import (
	"context"
	"testing"

	"github.com/perdure/perdure/store"
)

// The following drivers are wrong about settings.

// eachSetting changes the settings of a group before it is written.
func eachSetting(change func(*store.Setting)) func(store.Store, *store.Group) error {
	return func(s store.Store, g *store.Group) error {
		for i := range g.Changes {
			for j := range g.Changes[i].Settings {
				change(&g.Changes[i].Settings[j])
			}
		}
		return s.Commit(context.Background(), g)
	}
}

// setsFirst writes settings in a group of their own, so that a refused group leaves them.
func setsFirst(s store.Store, g *store.Group) error {
	own := store.Group{Now: g.Now}
	for i := range g.Changes {
		if all := g.Changes[i].Settings; len(all) > 0 {
			own.Changes = append(own.Changes, store.Change{Settings: all})
			g.Changes[i].Settings = nil
		}
	}
	if len(own.Changes) > 0 {
		if err := s.Commit(context.Background(), &own); err != nil {
			return err
		}
	}
	return s.Commit(context.Background(), g)
}

func hearsOfNoSetting(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	if got.Settings > 1 {
		got.Settings = 1
	}
	return got, err
}

// spec: R-32
func TestSuiteFailsDriversThatAreWrongAboutSettings(t *testing.T) {
	for name, c := range map[string]struct {
		broken
		check string
	}{
		"never removes a setting": {
			broken{commit: eachSetting(func(s *store.Setting) {
				if s.Value == nil {
					s.Value = []byte{}
				}
			})},
			"setting/engines and clients set, change and remove settings",
		},
		"forgets the reason": {
			broken{commit: eachSetting(func(s *store.Setting) { s.Reason = "" })},
			"setting/engines and clients set, change and remove settings",
		},
		"has one name": {
			broken{commit: eachSetting(func(s *store.Setting) { s.Name = "a" })},
			"setting/engines and clients set, change and remove settings",
		},
		"returns the first revision": {
			broken{claim: hearsOfNoSetting},
			"setting/an engine that looks for runs hears of the last revision",
		},
		"keeps the settings of a group that is refused": {
			broken{commit: setsFirst}, "setting/a group that is refused sets nothing",
		},
		"takes any name": {
			broken{commit: eachSetting(func(s *store.Setting) {
				s.Kind, s.Name, s.By, s.Reason = "a", "a", "", ""
			})},
			"setting/only names are set",
		},
	} {
		if !Catches(t, c.check, 1, over(c.broken)) {
			t.Errorf("%q does not fail a driver that %s", c.check, name)
		}
	}
}
