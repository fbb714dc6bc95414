package kernel

import (
	"sync"
	"testing"
)

func TestWhereaboutsOfHolders(t *testing.T) {
	const (
		workflow = "example.com/shop.order(...)\n\t/shop.go:1 +0x1\n"
		closure  = "github.com/perdure/perdure/internal/kernel.(*run).execute.func1()\n" +
			"\t/run.go:1 +0x1\n"
		marker = "github.com/perdure/perdure/internal/kernel.(*branch).workflow(0x2a, 0x1?)\n" +
			"\t/lend.go:1 +0x1\n"
		kernel = "github.com/perdure/perdure/internal/kernel."
		others = "goroutine 1 [running]:\nmain.main()\n\t/main.go:1 +0x1\n\n"
		below  = kernel + "(*branch).main(0x2a)\n\t/scope.go:1 +0x1\ncreated by x\n\n" +
			"goroutine 9 [select]:\n" + kernel + "(*branch).workflow(0x2b, 0x1?)\n\n"
	)
	for name, c := range map[string]struct {
		header, top string
		want        whereabouts
	}{
		"runs":                {"running", "", runs},
		"could run":           {"runnable, synctest bubble 3", "", runs},
		"is preempted":        {"preempted", "", runs},
		"helps the collector": {"GC assist wait", "", runs},
		"receives":            {"chan receive", "runtime.chanrecv()\n", blocked},
		"sends for long":      {"chan send, 3 minutes", "", blocked},
		"selects in a bubble": {"select (durable), synctest bubble 3", "", blocked},
		"waits for a lock":    {"sync.Mutex.Lock", "sync.(*Mutex).Lock(...)\n", inBrief},
		"waits for a group":   {"sync.WaitGroup.Wait (durable)", "", inBrief},
		"sleeps":              {"sleep, locked to thread", "time.Sleep()\n", blocked},
		"reads":               {"IO wait", "internal/poll.runtime_pollWait()\n", blocked},
		"begins a collection": {"semacquire", "", runs},
		"waits for a file": {
			"semacquire", "internal/poll.runtime_Semacquire(0x2b)\n", blocked,
		},
		"is in a system call": {"syscall", "", inBrief},
		"waits for the engine": {"sync.Mutex.Lock", "sync.(*Mutex).Lock(...)\n" + kernel +
			"inside(...)\n" + kernel + "Do(...)\n", runs},
		"has the engine store": {
			"select", "x/store.Spill()\n" + kernel + "(*Kernel).spillOver()\n", runs,
		},
		"asks an error for its text": {
			"chan receive", "github.com/perdure/perdure/internal/guard.Call(0x2b)\n" +
				"\t/guard.go:1 +0x1\n", runs,
		},
		"calls the engine's client": {"select", kernel + "(*Engine).await()\n" + kernel +
			"(*Engine).Wait()\n", blocked},
	} {
		dump := others + "goroutine 7 [" + c.header + "]:\n" + c.top + workflow + closure + marker +
			below
		if got := find([]byte(dump), map[uintptr]*longTurn{42: {}})[42]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := find([]byte(others), map[uintptr]*longTurn{42: {}})[42]; got != unknown {
		t.Errorf("of one that is not there: %v", got)
	}
}

// BenchmarkDump measures a look: all goroutines stand still for that long.
func BenchmarkDump(b *testing.B) {
	const goroutines = 100_000
	var ended, begun sync.WaitGroup
	over := make(chan struct{})
	defer ended.Wait()
	defer close(over)
	for range goroutines {
		begun.Add(1)
		ended.Go(func() { (&branch{}).workflow(func() { begun.Done(); <-over }) })
	}
	begun.Wait()
	b.ResetTimer()
	for range b.N {
		text := dump(true)
		b.ReportMetric(float64(len(text))/goroutines, "bytes/goroutine")
	}
}
