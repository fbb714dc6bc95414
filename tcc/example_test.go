package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// A Trip is the input of the TCC: the trip that a traveller books.
type Trip struct {
	Name   string
	Nights int
}

// A Seat and a Room are held for a traveller until they are taken or given back.
type Seat struct{ Number string }
type Room struct{ Number int }

var errFull = errors.New("the hotel is full")

// holdSeat is a try: nobody else can take the seat that it holds, and the traveller does not have
// it yet. A real request would carry perdure.IdempotencyKey, so that a repeated request has no
// second effect.
func holdSeat(_ context.Context, trip Trip) (Seat, error) { return Seat{"12A"}, nil }

func takeSeat(_ context.Context, trip Trip, held Seat) error {
	fmt.Println("seat", held.Number, "is taken for", trip.Name)
	return nil
}

// releaseSeat is a cancel. It gets an empty Seat if nobody knows whether a seat was held. It also
// undoes the effect of takeSeat, if there was one.
func releaseSeat(_ context.Context, _ Trip, held Seat) error {
	fmt.Println("seat", held.Number, "is free again")
	return nil
}

func holdRoom(_ context.Context, trip Trip) (Room, error) {
	if trip.Nights > 7 {
		return Room{}, perdure.Permanent(errFull)
	}
	return Room{204}, nil
}

func takeRoom(_ context.Context, trip Trip, held Room) error { return nil }

func releaseRoom(_ context.Context, _ Trip, held Room) error {
	fmt.Println("room", held.Number, "is free again")
	return nil
}

// trips returns a TCC and one of its participants.
func trips() (*tcc.TCC[Trip], *tcc.Participant[Trip, Seat]) {
	trip := tcc.New[Trip]("trip")
	seat := tcc.Add(trip, "seat", holdSeat).Confirm(takeSeat).Cancel(releaseSeat)
	tcc.Add(trip, "room", holdRoom).Confirm(takeRoom).Cancel(releaseRoom)
	return trip, seat
}

// begin returns a running engine and a function that stops it.
func begin(defs ...perdure.Definition) (*perdure.Engine, func()) {
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "example"})
	if err == nil {
		err = eng.Register(defs...)
	}
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	return eng, func() { stop(); <-done }
}

// All participants try, one after the other, and then all confirm.
func Example() {
	trip, seat := trips()
	eng, stop := begin(trip)
	defer stop()
	r, err := trip.Execute(context.Background(), eng, Trip{Name: "Ada", Nights: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	held, _, _ := seat.Of(r)
	fmt.Println(r.Status, held.Number)
	// Output:
	// seat 12A is taken for Ada
	// CONFIRMED 12A
}

// If a participant cannot try, the participants that have tried are cancelled.
func ExampleTCC_Execute() {
	trip, _ := trips()
	eng, stop := begin(trip)
	defer stop()
	r, err := trip.Execute(context.Background(), eng, Trip{Name: "Ada", Nights: 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	phase, who := r.Failed()
	fmt.Println(r.Status, phase, who)
	fmt.Println(r.Err)
	// Output:
	// seat 12A is free again
	// CANCELED TRY room
	// try of room failed: the hotel is full
}

// The functions of a participant get their arguments by tags. An optional participant that cannot
// try is left out.
func ExampleAdd() {
	trip, _ := trips()
	meal := tcc.Add(trip, "meal", func(_ context.Context, in struct {
		Name string `perdure:"input=Name"`
		Seat Seat   `perdure:"try=seat"`
	}) (string, error) {
		return "vegetarian for " + in.Name + " in " + in.Seat.Number, nil
	}).Order(1).Optional()
	tcc.ConfirmWith(meal, func(_ context.Context, in struct {
		Meal string `perdure:"try=meal"`
	}) (bool, error) {
		fmt.Println(in.Meal)
		return true, nil
	})
	tcc.CancelWith(meal, func(context.Context, struct{}) (bool, error) { return true, nil })

	eng, stop := begin(trip)
	defer stop()
	r, err := trip.Execute(context.Background(), eng, Trip{Name: "Ada", Nights: 2})
	fmt.Println(r.Status, err)
	// Unordered output:
	// seat 12A is taken for Ada
	// vegetarian for Ada in 12A
	// CONFIRMED <nil>
}

// A composition confirms one TCC after the other. If a TCC fails, the confirmed TCCs are cancelled.
func ExampleCompose() {
	there, seat := trips()
	tour := tcc.New[string]("tour")
	tcc.Add(tour, "guide", func(_ context.Context, where string) (string, error) {
		return "", perdure.Permanent(fmt.Errorf("nobody guides %s", where))
	}).
		Confirm(func(context.Context, string, string) error { return nil }).
		Cancel(func(context.Context, string, string) error { return nil })

	holiday := tcc.Compose[Trip]("holiday")
	trip := tcc.Include(holiday, "trip", there, func(in Trip) (Trip, error) { return in, nil })
	tcc.Include(holiday, "tour", tour, func(in struct {
		Seat Seat `perdure:"try=trip/seat"`
	}) (string, error) {
		return "who sits in " + in.Seat.Number, nil
	}).After(trip)

	eng, stop := begin(holiday)
	defer stop()
	r, err := holiday.Execute(context.Background(), eng, Trip{Name: "Ada", Nights: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	held, _, _ := seat.Of(trip.Of(r))
	fmt.Println(r.Status, "after", held.Number)
	fmt.Println(r.Err)
	// Output:
	// seat 12A is taken for Ada
	// room 204 is free again
	// seat 12A is free again
	// CANCELED after 12A
	// try of tour/guide failed: nobody guides who sits in 12A
}

// A TCC is a part of any workflow.
func ExampleTCC_Inline() {
	trip, seat := trips()
	journey := perdure.Define("journey", func(ctx context.Context, names []string) (string, error) {
		var seats []string
		for _, name := range names {
			e, err := trip.Inline(ctx, Trip{Name: name, Nights: 1}, perdure.Key(name))
			if err != nil {
				return "", err
			}
			if e.Err != nil {
				return "", e.Err
			}
			held, _, err := seat.In(e)
			if err != nil {
				return "", err
			}
			seats = append(seats, held.Number)
		}
		return strings.Join(seats, " "), nil
	})
	eng, stop := begin(journey)
	defer stop()
	run, err := journey.Start(context.Background(), eng, []string{"Ada", "Bob"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(context.Background()))
	// Output:
	// seat 12A is taken for Ada
	// seat 12A is taken for Bob
	// 12A 12A <nil>
}
