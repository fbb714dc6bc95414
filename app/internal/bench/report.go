package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"
)

// A Report has the figures of a measurement. Its JSON is an object with the keys below.
// Times are in the unit at the end of the key.
type Report struct {
	Workload  string  `json:"workload"`
	Store     string  `json:"store"`
	Runs      int     `json:"runs"`
	Steps     int     `json:"steps"` // of each run; a run that waits counts its wait as a step
	InFlight  int     `json:"in_flight"`
	Payload   int     `json:"payload"`
	Repeats   int     `json:"repeats,omitempty"` // of fanout: number of repeats
	Rounds    int     `json:"rounds,omitempty"`  // number of rounds of floor and engine
	Seconds   float64 `json:"seconds"`
	RunsPerS  float64 `json:"runs_per_s"`
	StepsPerS float64 `json:"steps_per_s"`
	// P50 and P99 are times of a run, from the call that starts it to its result. Of resume
	// they are times of a step, of signals times of a send, of sleepers and timers delays.
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	CPU          float64 `json:"cpu_s"` // of the process during the workload, without the floor
	CPUPerStep   float64 `json:"cpu_us_per_step"`
	RSS          float64 `json:"rss_mb"` // at the end of the workload
	Commits      int64   `json:"commits"`
	BytesPerStep float64 `json:"bytes_per_step"` // on disk, of the whole database; 0 in memory

	FanoutMS float64 `json:"fanout_ms,omitempty"` // median of the repeats
	// ResumeS is the time from the call of Run to the first new step.
	ResumeS     float64 `json:"resume_s,omitempty"`
	FirstStepMS float64 `json:"first_step_ms,omitempty"` // median of the first steps of the run
	LastStepMS  float64 `json:"last_step_ms,omitempty"`  // median of the last steps

	*Sleeping
	*Sending
	*Timing

	Floor *Floor `json:"floor"` // null in memory
	// RatioSteps is the ratio to the floor's steps per second; null if the floor has other
	// runs.
	RatioSteps *float64 `json:"ratio_steps"`
	RatioP50   *float64 `json:"ratio_p50"` // ratio to the floor's p50
}

// Sleeping has the figures of runs that sleep. Memory and goroutines are the growth of the
// process from before the first start until all runs sleep and none is loaded, both after
// garbage collection. Seconds, CPU and the figures that follow from them are about the runs
// that wake, from their due time until the last end is durable.
type Sleeping struct {
	AsleepPerS float64 `json:"asleep_per_s"` // runs started per second, until none was loaded
	RSSGrowth  float64 `json:"rss_growth_mb"`
	Goroutines int     `json:"goroutines"`
	// IdleQueries is the number of calls to the store, of any kind, while all runs sleep.
	IdleQueries float64 `json:"idle_queries_per_min"`
	IdleS       float64 `json:"idle_s"` // time of counting them
	Due         int     `json:"due"`    // runs that are due at the same time
	// WakePerS counts the due runs, from their due time until the code of the last one has
	// gone on.
	WakePerS float64 `json:"wake_per_s"`
	// EndsPerS counts the due runs, from their due time until the last end was durable.
	EndsPerS float64 `json:"ends_per_s"`
}

// Sending has the figures of signals to runs that are not loaded. Seconds and CPU are from
// the first send to the end of the last run.
type Sending struct {
	SignalsPerS float64 `json:"signals_per_s"` // until the last run has taken its signal, durably
	SendP99     float64 `json:"send_p99_ms"`   // of one send
}

// Timing has the figures of timers. The delay of a timer is the time from its due time
// until its code has gone on. Both are times of the machine's clock.
type Timing struct {
	DuePerS  float64 `json:"due_per_s"`
	LateP99  float64 `json:"late_p99_ms"`
	LateMost float64 `json:"late_max_ms"`
	Early    int     `json:"early"` // timers whose code went on before they were due
}

// A Floor is the limit: the figures of a bare loop that writes the same rows to the same
// disk, with the store's own statements, group by group. A figure is the median of the
// rounds, or the better one of a floor before the workload and a floor after it.
type Floor struct {
	Runs       int     `json:"runs"`
	Steps      int     `json:"steps"`
	InFlight   int     `json:"in_flight"`
	StepsPerS  float64 `json:"steps_per_s"`
	P50        float64 `json:"p50_ms"`
	CPUPerStep float64 `json:"cpu_us_per_step"`
	// The fdatasync figures are about the disk of this machine, and not of a server.
	SyncsPerS float64 `json:"fdatasync_per_s,omitempty"`
	SyncP50   float64 `json:"fdatasync_p50_ms,omitempty"`
}

// set sets the figures that follow from the times of the runs.
func (r *Report) set(took []time.Duration, total, cpu time.Duration, runs int) {
	steps := float64(runs * r.Steps)
	r.Seconds, r.CPU, r.CPUPerStep = thousandths(total.Seconds()), thousandths(cpu.Seconds()),
		thousandths(float64(cpu.Microseconds())/steps)
	r.RunsPerS, r.StepsPerS = thousandths(float64(runs)/total.Seconds()),
		thousandths(steps/total.Seconds())
	r.P50, r.P99 = ms(took[len(took)/2]), ms(took[len(took)*99/100])
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// thousandths rounds to three decimals: more would be noise.
func thousandths(x float64) float64 { return math.Round(x*1e3) / 1e3 }

// JSON writes the report as one JSON object.
func (r *Report) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// Text writes the report as lines of a key and its value.
func (r *Report) Text(w io.Writer) error {
	return writeText(w, "", reflect.ValueOf(r).Elem())
}

// writeText writes the same fields as JSON does. The keys of a struct have its key as
// prefix.
func writeText(w io.Writer, prefix string, v reflect.Value) error {
	for i := range v.NumField() {
		key, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if v.Type().Field(i).Anonymous && !f.IsNil() {
			if err := writeText(w, prefix, f.Elem()); err != nil {
				return err
			}
		}
		if key == "" || option == "omitempty" && f.IsZero() {
			continue
		}
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		var err error
		switch f.Kind() {
		case reflect.Struct:
			err = writeText(w, key+".", f)
		case reflect.Float64:
			_, err = fmt.Fprintf(w, "%-24s %.3f\n", prefix+key, f.Float())
		case reflect.Pointer:
			_, err = fmt.Fprintf(w, "%-24s -\n", prefix+key)
		default:
			_, err = fmt.Fprintf(w, "%-24s %v\n", prefix+key, f.Interface())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
