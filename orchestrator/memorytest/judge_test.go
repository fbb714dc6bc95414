package memorytest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

// spec: A-15
func TestAClauseIsCheckedAgainIfTheCallsWereSlow(t *testing.T) {
	wrong := errors.New("wrong")
	const short, second = time.Nanosecond, time.Second
	for name, test := range map[string]struct {
		first, later time.Duration // of the checks, beside their sleeps
		fails        int           // of the checks, the first ones
		ttl          time.Duration
		sure         bool
		checks       int
		err          error
	}{
		"right":                  {time.Hour, short, 0, 0, false, 1, nil},
		"wrong and fast":         {short, short, 1, 0, false, 1, wrong},
		"slow, then right":       {second, short, 1, 0, false, 2, nil},
		"slow and sure":          {time.Hour, short, 1, 0, true, 1, wrong},
		"wrong, and fast later":  {second, short, 9, 0, false, 2, wrong},
		"always wrong and slow":  {time.Hour, time.Hour, 9, 0, false, 5, wrong},
		"slow for short locks":   {second, second, 9, 0, false, 4, wrong},
		"not slow for its locks": {second, second, 9, time.Minute, false, 1, wrong},
		"slow for its locks":     {second, second, 9, second, false, 5, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				c := Case{"", func(_ context.Context, w World) error {
					n++
					w.Sleep(time.Hour)
					time.Sleep(map[bool]time.Duration{true: test.first, false: test.later}[n == 1])
					if n <= test.fails {
						return wrong
					}
					return nil
				}, test.sure}
				err := c.judge(t.Context(), t.Logf, func() World { return World{TTL: test.ttl} })
				if err != test.err || n != test.checks {
					t.Errorf("%v after %d checks", err, n)
				}
			})
		})
	}
}

// spec: A-15
func TestASlowMemoryThatIsRightPasses(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := c.judge(t.Context(), t.Logf, func() World {
					m := &slow{Memory: &orchestrator.Local[Value]{}}
					return World{Open: func() orchestrator.Memory[Value] { return m }}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A slow memory needs a third of a second to read.
type slow struct {
	orchestrator.Memory[Value]
}

func (s *slow) Read(ctx context.Context, subject string, m *orchestrator.Metadata) (
	*orchestrator.State[Value], error) {
	time.Sleep(time.Second / 3)
	return s.Memory.Read(ctx, subject, m)
}
