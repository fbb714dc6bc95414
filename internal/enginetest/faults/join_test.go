package faults_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// An engine that is stopped while it joins its store for the first time has nothing to hand over.
func TestAnEngineThatIsStoppedWhileItJoinsReturnsNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		silent := &world.Hook{Store: memory.New()}
		silent.OnClaim = func(store.Claim, func() (store.Claimed, error)) (store.Claimed, error) {
			<-ctx.Done()
			return store.Claimed{}, errors.Join(errors.New("the network is down"), ctx.Err())
		}
		eng := world.Must[*perdure.Engine](t)(perdure.New(silent, perdure.Options{}))
		ran := make(chan error, 1)
		go func() { ran <- eng.Run(ctx) }()
		time.Sleep(time.Second)
		stop()
		if err := <-ran; err != nil {
			t.Errorf("it returned %v", err)
		}
	})
}

// That holds for a deadline, and for a store that answers with an error of its own.
func TestAnEngineWhoseTimeIsOverBeforeItHasJoinedReturnsNil(t *testing.T) {
	for name, fails := range map[string]func(ctx context.Context) error{
		"the deadline passes in a call": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"the deadline passes between two calls": func(context.Context) error {
			return errors.New("the network is down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				shared := memory.NewShared(world.Lease)
				down := &world.Hook{Store: shared.Beside()}
				down.OnClaim = func(store.Claim, func() (store.Claimed, error)) (store.Claimed,
					error) {
					return store.Claimed{}, fails(ctx)
				}
				eng := world.Must[*perdure.Engine](t)(perdure.New(down, perdure.Options{}))
				if err := eng.Run(ctx); err != nil {
					t.Errorf("it returned %v", err)
				}
			})
		})
	}
}
