package admin

import (
	"testing"
	"time"
)

func TestSizesAndSpansAreForPeople(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KB", 2431848: "2.3 MB", 1<<20 - 1: "1.0 MB",
		64 << 20: "64 MB", 5 << 40: "5.0 TB", 1 << 60: "1048576 TB",
	} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", 10 * time.Minute: "10m", 168 * time.Hour: "168h",
		90 * time.Second: "1m30s", 61 * time.Minute: "1h1m", time.Hour + time.Second: "1h0m1s",
	} {
		if got := spans.Replace(d.String()); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
