package postgres

import (
	"os"
	"strconv"
	"testing"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store/storetest"
)

// BenchmarkLists measures pages of lists. The variable PERDURE_LIST_RUNS is the number of runs.
func BenchmarkLists(b *testing.B) {
	runs, _ := strconv.Atoi(os.Getenv("PERDURE_LIST_RUNS"))
	s, err := Open(b.Context(), testpg.URL(b))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m, err := storetest.Fill(b.Context(), s, max(runs, 20_000))
	if err != nil {
		b.Fatal(err)
	}
	storetest.BenchLists(b, m)
	storetest.BenchCounts(b, m)
}
