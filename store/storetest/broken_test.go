package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// failures returns the names of the checks that fail with a driver.
func failures(t *testing.T, fresh func() Database) []string {
	var names []string
	for _, c := range checks() {
		if c.isLarge() {
			continue // slow, and not part of this test
		}
		if len(c.failures(t.Context(), fresh())) > 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// A broken driver is the store in memory with one wrong method.
type broken struct {
	store.Store
	commit func(s store.Store, g *store.Group) error
	claim  func(s store.Store, c store.Claim) (store.Claimed, error)
	load   func(s store.Store, run journal.Number, r store.Range) ([]journal.Entry, error)
	find   func(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error)
	count  func(s store.Store, f store.Filter) ([]store.Count, error)
	purge  func(s store.Store, p store.Purge) (store.Purged, error)
	close  func(s store.Store) error
}

func (b broken) Commit(ctx context.Context, g *store.Group) error {
	if b.commit == nil {
		return b.Store.Commit(ctx, g)
	}
	return b.commit(b.Store, g)
}

func (b broken) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if b.claim == nil {
		return b.Store.Claim(ctx, c)
	}
	return b.claim(b.Store, c)
}

func (b broken) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	if b.load == nil {
		return b.Store.Load(ctx, run, r)
	}
	return b.load(b.Store, run, r)
}

func (b broken) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	if b.find == nil {
		return b.Store.Find(ctx, f)
	}
	return b.find(b.Store, f)
}

func (b broken) Count(ctx context.Context, f store.Filter) ([]store.Count, error) {
	if b.count == nil {
		return store.CountRuns(ctx, b.Store, f)
	}
	return b.count(b.Store, f)
}

func (b broken) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if b.purge == nil {
		return b.Store.Purge(ctx, p)
	}
	return b.purge(b.Store, p)
}

func (b broken) Close() error {
	if b.close == nil {
		return b.Store.Close()
	}
	return b.close(b.Store)
}

// over returns a function that makes databases in memory, each behind a copy of the broken
// driver.
func over(b broken) func() Database {
	return func() Database {
		s := memory.New()
		return Database{Open: func() (store.Store, error) {
			s = s.Reopen()
			b := b
			b.Store = s
			return b, nil
		}}
	}
}

// overMany is over for databases with many engines.
func overMany(b broken) func() Database {
	return func() Database {
		s := memory.NewShared(time.Hour)
		return Database{
			Open: func() (store.Store, error) {
				b := b
				b.Store = s.Beside()
				return b, nil
			},
			Lapse: s.Lapse,
		}
	}
}

func TestSuitePassesARightDriver(t *testing.T) {
	for name, fresh := range map[string]func() Database{
		"for one engine": over(broken{}),
		"for many":       overMany(broken{}),
	} {
		if names := failures(t, fresh); len(names) != 0 {
			t.Errorf("one %s fails %q", name, names)
		}
	}
}

// TestSuiteFailsBrokenDrivers proves that the checks can fail: each driver does one thing
// wrong, and the check for that must detect it.
func TestSuiteFailsBrokenDrivers(t *testing.T) {
	for name, c := range map[string]struct {
		driver broken
		check  string // this check must be among the failed checks
	}{
		"forgets the fence": {
			broken{commit: unfenced},
			"commit/an engine that was taken over writes nothing",
		},
		"ignores the window": {
			broken{commit: noWindow},
			"start/an ended run counts within the window",
		},
		"loses the last entry": {
			broken{commit: losesLast},
			"start/a new run is there with its head and its entries",
		},
		"takes empty payloads for none": {
			broken{load: nilForEmpty},
			"entry/payloads come back byte for byte",
		},
		"cuts times to milliseconds": {
			broken{load: cutTimes},
			"entry/every field comes back as it was",
		},
		"never counts crashes": {
			broken{find: noCrashes},
			"crash/a run that was executing counts one",
		},
		"writes parts of a group": {
			broken{commit: oneByOne},
			"commit/an entry that is there refuses the whole group",
		},
		"does not know Again": {
			broken{commit: neverAgain},
			"again/a group that was written is not written twice",
		},
		"gives owned runs as free": {
			broken{claim: forgetsOwner},
			"take/runs come due longest first, with owner and journal",
		},
		"takes the newest first": {
			broken{claim: newestFirst},
			"take/runs come due longest first, with owner and journal",
		},
		"leaves when it is closed": {
			broken{close: leaves},
			"crash/a run that was executing counts one",
		},
		"does not lock": {
			broken{claim: neverLocked},
			"join/a second engine is told who has the store",
		},
		"keeps runs as they began": {
			broken{commit: neverKept},
			"purge/a run is kept as long as its head says at its end",
		},
		"lets anybody's payloads go": {
			broken{commit: noShares},
			"purge/a run has payloads of one that is there, and keeps them",
		},
		"lists whatever begins so": {
			broken{find: withAll},
			"find/each filter limits, and together they limit more",
		},
		"lists the oldest first": {
			broken{find: wrongOrder},
			"find/heads come newest first, page by page",
		},
		"unloads whatever was sent": {
			broken{commit: alwaysUnloads},
			"unload/a run that was sent a message stays its engine's",
		},
		"does not wake": {
			broken{commit: neverNow},
			"post/a run that nobody owns is due when the message comes",
		},
		"keeps no drain": {
			broken{claim: keepsNoDrain}, "renew/the store shows that an engine drains",
		},
		"takes what is paused": {
			broken{claim: takesPaused},
			"take/of a workflow that is paused come runs with an unseen order",
		},
		"leaves orders": {
			broken{claim: leavesOrders}, "take/an order is unseen until its run is given back",
		},
		"leaves what is to be terminated": {
			broken{claim: leavesUnknown},
			"take/of a workflow that no engine has come runs that are to be terminated",
		},
		"takes any order of a workflow that no engine has": {
			broken{claim: takesUnknown},
			"take/of a workflow that no engine has come runs that are to be terminated",
		},
		"leaves orders out of the next time": {
			broken{claim: nextWithoutOrders}, "take/the next wake time is told for orders too",
		},
		"keeps no workflows": {
			broken{claim: keepsNoWorkflows}, "renew/the store shows which workflows an engine has",
		},
		"keeps no loops": {
			broken{claim: keepsNoLoops}, "renew/the store shows the loops of an engine",
		},
		"wakes whoever is unloaded": {
			broken{commit: alwaysForces},
			"post/a run with a cause to stay unloaded wakes by force only",
		},
		"knows no message again": {
			broken{commit: forgetsIDs},
			"post/a message of a known ID is a duplicate",
		},
		"lets the unrouted wait": {
			broken{commit: neverNow},
			"unrouted/a run that is created gets what waited for its ID, in order",
		},
		"leaves messages behind": {
			broken{commit: noSuccessors},
			"successor/what was not taken moves along with its numbers",
		},
		"posts for both cases": {
			broken{commit: noElse},
			"with/the message of a start goes to the new run",
		},
		"keeps removed attributes": {
			broken{commit: keepsAttributes},
			"attribute/a run is found by what holds now",
		},
		"gives no mail": {
			broken{claim: noMail},
			"mail/what others posted to an owned run is given once",
		},
		"gives runs without inbox": {
			broken{claim: noInbox},
			"inbox/a claim gives what was not taken",
		},
		"takes telling for told": {
			broken{claim: tellsOnce},
			"outbox/an entry stays until it was told",
		},
		"lets clients join": {
			broken{claim: clientsJoin},
			"reserve/a client gets an engine ID that nobody else gets",
		},
		"loads the first for the last": {
			broken{load: noTail},
			"entry/a range limits what is loaded",
		},
		"purges what stands for an ID": {
			broken{purge: ignoresKeep},
			"purge/a run that stands for its workflow ID stays",
		},
		"purges runs with entries in the outbox": {
			broken{purge: ignoresOutbox},
			"purge/a run with an entry in the outbox stays",
		},
		"purges all at a time": {
			broken{purge: ignoresLimit},
			"purge/no transaction removes more rows than it may, whatever a run has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := failures(t, over(c.driver))
			if !strings.Contains(strings.Join(names, "\n"), c.check) {
				t.Errorf("%q passes; what fails is %q", c.check, names)
			}
		})
	}
}

func TestChecksHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks() {
		if seen[c.name] {
			t.Errorf("two checks are called %q", c.name)
		}
		seen[c.name] = true
	}
}

func unfenced(s store.Store, g *store.Group) error {
	err := s.Commit(context.Background(), g)
	if errors.Is(err, store.ErrFenced) {
		return nil
	}
	return err
}

func noWindow(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		g.Changes[i].Since = time.Time{}
	}
	return s.Commit(context.Background(), g)
}

func losesLast(s store.Store, g *store.Group) error {
	short := *g
	short.Changes = append([]store.Change(nil), g.Changes...)
	for i := range short.Changes {
		if e := short.Changes[i].Entries; len(e) > 1 {
			short.Changes[i].Entries = e[:len(e)-1]
		}
	}
	err := s.Commit(context.Background(), &short)
	for i := range short.Changes {
		g.Changes[i].Verdict, g.Changes[i].Found = short.Changes[i].Verdict, short.Changes[i].Found
	}
	return err
}

func nilForEmpty(s store.Store, run journal.Number, r store.Range) ([]journal.Entry, error) {
	entries, err := s.Load(context.Background(), run, r)
	for i := range entries {
		if len(entries[i].Data) == 0 {
			entries[i].Data = nil
		}
	}
	return entries, err
}

func cutTimes(s store.Store, run journal.Number, r store.Range) ([]journal.Entry, error) {
	entries, err := s.Load(context.Background(), run, r)
	for i := range entries {
		entries[i].At = entries[i].At.Truncate(time.Millisecond)
	}
	return entries, err
}

func noCrashes(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	heads, next, err := s.Find(context.Background(), f)
	for i := range heads {
		heads[i].Crashes = 0
	}
	return heads, next, err
}

func oneByOne(s store.Store, g *store.Group) error {
	for i := range g.Changes {
		part := *g
		part.Changes = g.Changes[i : i+1]
		if err := s.Commit(context.Background(), &part); err != nil {
			return err
		}
	}
	return nil
}

func neverAgain(s store.Store, g *store.Group) error {
	once := *g
	once.Again = false
	return s.Commit(context.Background(), &once)
}

func forgetsOwner(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	for i := range got.Runs {
		got.Runs[i].Head.Owner = 0
	}
	return got, err
}

func newestFirst(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	for i, j := 0, len(got.Runs)-1; i < j; i, j = i+1, j-1 {
		got.Runs[i], got.Runs[j] = got.Runs[j], got.Runs[i]
	}
	return got, err
}

func leaves(s store.Store) error {
	info, err := s.Info(context.Background())
	if err != nil {
		return s.Close()
	}
	for _, e := range info.Engines {
		if _, err := s.Claim(context.Background(), store.Leave{
			Engine: e.ID, Now: epoch,
		}); err != nil {
			return err
		}
	}
	return s.Close()
}

func neverLocked(s store.Store, c store.Claim) (store.Claimed, error) {
	got, err := s.Claim(context.Background(), c)
	if errors.Is(err, store.ErrLocked) {
		return store.Claimed{Engine: 99}, nil
	}
	return got, err
}

func wrongOrder(s store.Store, f store.Filter) ([]journal.Head, journal.Cursor, error) {
	heads, next, err := s.Find(context.Background(), f)
	for i, j := 0, len(heads)-1; i < j; i, j = i+1, j-1 {
		heads[i], heads[j] = heads[j], heads[i]
	}
	return heads, next, err
}
