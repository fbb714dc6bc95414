package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/store"
)

// settingChecks are about the settings of operators.
func settingChecks() []check {
	return []check{
		{"setting/engines and clients set, change and remove settings", settingKept},
		{"setting/an engine that looks for runs hears of the last revision", settingHeard},
		{"setting/a group that is refused sets nothing", settingRefused},
		{"setting/settings outlive the engine", settingOutlives},
		{"setting/only names are set", settingMalformed},
	}
}

// sets returns a change that sets a setting of kind limit; an empty value removes it.
func sets(name, value string) store.Change {
	s := store.Setting{Kind: "limit", Name: name, By: "ann", Reason: "é" + name, At: at(1)}
	if value != "" {
		s.Value = []byte(value)
	}
	return store.Change{Settings: []store.Setting{s}}
}

// holdsSettings demands the settings, each as name=value, in the order of their revisions.
func holdsSettings(w *world, want string) (last int64) {
	w.Helper()
	info, err := w.s.Info(w.Context())
	w.ok(err)
	brief, err := store.Brief(w.Context(), w.s)
	w.ok(err)
	w.same("settings in brief", fmt.Sprint(brief.Settings), fmt.Sprint(info.Settings))
	var got []string
	for _, s := range info.Settings {
		text := s.Name + "=" + string(s.Value)
		if s.Value == nil {
			text = s.Name
		}
		got = append(got, text)
		if s.Kind != "limit" || s.By != "ann" || s.Reason != "é"+s.Name || !s.At.Equal(at(1)) {
			w.Errorf("setting %+v", s)
		}
		if s.Revision <= last {
			w.Errorf("revision %d of %q follows %d", s.Revision, s.Name, last)
		}
		last = s.Revision
	}
	w.same("settings", strings.Join(got, " "), want)
	return last
}

// spec: R-32
func settingKept(w *world) {
	w.join(0)
	holdsSettings(w, "")
	w.commit(sets("a", "1"), sets("b", `{"x": 2}`), sets("", "0"))
	holdsSettings(w, `a=1 b={"x": 2} =0`)
	w.ok(w.s.Commit(w.Context(), &store.Group{Now: at(2), Changes: []store.Change{
		sets("a", "3"),
	}}))
	holdsSettings(w, `b={"x": 2} =0 a=3`)
	w.commit(sets("b", ""))
	holdsSettings(w, `=0 a=3 b`)
	w.commit(sets("b", "4"))
	holdsSettings(w, `=0 a=3 b=4`)
}

// spec: R-32
func settingHeard(w *world) {
	w.join(0)
	for _, most := range []int{0, 10} {
		if got := w.take(1, most); got.Settings != 0 {
			w.Errorf("revision %d before any", got.Settings)
		}
	}
	w.commit(sets("a", "1"))
	w.commit(sets("a", ""))
	last := holdsSettings(w, "a")
	w.commit(w.free("due", 1))
	for _, most := range []int{0, 10, 10} { // with runs that are due, and without
		if got := w.take(2, most); got.Settings != last {
			w.Errorf("revision %d, want %d", got.Settings, last)
		}
	}
}

func settingRefused(w *world) {
	w.join(0)
	w.commit(sets("a", "1"))
	last := holdsSettings(w, "a=1")
	h := w.written(w.start(""))[0]
	w.refused(w.group(sets("a", "2"), sets("b", "2"), ended(h, 9, 5))) // entries are missing
	if got := holdsSettings(w, "a=1"); got != last {
		w.Errorf("revision %d, want %d", got, last)
	}
}

func settingOutlives(w *world) {
	w.join(0)
	w.commit(sets("a", "1"))
	w.die(50)
	last := holdsSettings(w, "a=1")
	if got := w.take(50, 1); got.Settings != last {
		w.Errorf("revision %d, want %d", got.Settings, last)
	}
}

func settingMalformed(w *world) {
	w.join(0)
	long := strings.Repeat("x", store.MaxSettingText+1)
	for _, s := range []store.Setting{
		{Name: "a"}, {Kind: "a b", Name: "a"}, {Kind: "a", Name: "b c"}, {Kind: "a", By: long},
		{Kind: "a", Reason: long},
	} {
		s.At, s.Value = time.Unix(1, 0), []byte("1")
		w.refused(w.group(store.Change{Settings: []store.Setting{s}}))
	}
	holdsSettings(w, "")
}
