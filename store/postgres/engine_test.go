package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/postgres"
)

// An engine has to join within its lease, however many runs there are.
//
// spec: B-5, B-6
func TestJoiningReadsNoRunsOfOthers(t *testing.T) {
	ctx := t.Context()
	url := testpg.URL(t)
	must[*postgres.Store](t)(postgres.Open(ctx, url)).Close()
	db := must[*pgx.Conn](t)(pgx.Connect(ctx, url))
	defer db.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		"alter table perdure.heads set (autovacuum_enabled = off)",
		`insert into perdure.heads (number, workflow_id, workflow, pattern, status, owner, wake, created, ended, last, cause, crashes, chain, parent, keep, mail, given, seen, claimed)
		select 1 << 20 | n, 'r-' || n, 'dun', 1, 3, 0, 9e18, 0, case when n % 2 = 0 then n end, 1, '', 0, 0, 0, 0, 0, 0, 0, false from generate_series(1, 20000) n`,
	} {
		if _, err := db.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (n int) {
		t.Helper()
		if err := db.QueryRow(
			ctx,
			`select seq_tup_read + (select sum(idx_tup_read) from pg_stat_all_indexes i where i.relid = t.relid)
			from pg_stat_all_tables t where relid = 'perdure.heads'::regclass and pg_stat_force_next_flush() is not null`).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	for range 2 { // the second takes over
		s := must[*postgres.Store](t)(postgres.Open(ctx, url))
		eng := must[*perdure.Engine](t)(perdure.New(s, perdure.Options{}))
		if err := eng.Register(dun); err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- eng.Run(running) }()
		if _, err := dun.Start(ctx, eng, 1); err != nil { // it has joined
			t.Error(err)
		}
		stop()
		// its sessions report their reads when they end
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}
	if n := read() - before; n > 1000 {
		t.Errorf("two engines that have joined, claimed and left have read %d rows of 20,000 "+
			"that are none of theirs", n)
	}
}
