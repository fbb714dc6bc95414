package bench

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
)

// residentMB returns the memory of the process in use. Linux reports it. On other systems
// it is the memory that the Go runtime has mapped and not returned.
func residentMB() float64 {
	const mb = 1 << 20
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			if pages, err := strconv.ParseFloat(fields[1], 64); err == nil {
				return pages * float64(os.Getpagesize()) / mb
			}
		}
	}
	sample := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64()-sample[1].Value.Uint64()) / mb
}
