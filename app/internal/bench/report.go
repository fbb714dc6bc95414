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

// A Report is what was measured. Its JSON is an object with the keys below;
// times are in the unit that the key ends with.
type Report struct {
	Workload  string  `json:"workload"`
	Store     string  `json:"store"`
	Runs      int     `json:"runs"`
	Steps     int     `json:"steps"` // of each run; of one that waits, that it waits once
	InFlight  int     `json:"in_flight"`
	Payload   int     `json:"payload"`
	Repeats   int     `json:"repeats,omitempty"` // of fanout: how often the runs were made
	Rounds    int     `json:"rounds,omitempty"`  // in which the floor and the engine took turns
	Seconds   float64 `json:"seconds"`
	RunsPerS  float64 `json:"runs_per_s"`
	StepsPerS float64 `json:"steps_per_s"`
	// of a run, from the call that starts it to its result; of resume, of a step; of signals, of a
	// send; else how late
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	CPU          float64 `json:"cpu_s"` // of the process during the workload, without the floor's
	CPUPerStep   float64 `json:"cpu_us_per_step"`
	RSS          float64 `json:"rss_mb"` // at the end of the workload
	Commits      int64   `json:"commits"`
	BytesPerStep float64 `json:"bytes_per_step"` // on disk, all of the database; 0 in memory

	FanoutMS float64 `json:"fanout_ms,omitempty"` // median of the repeats
	// from Run being called to the first new step
	ResumeS     float64 `json:"resume_s,omitempty"`
	FirstStepMS float64 `json:"first_step_ms,omitempty"` // median of the first steps of the run
	LastStepMS  float64 `json:"last_step_ms,omitempty"`  // median of the last ones

	*Sleeping
	*Sending
	*Timing

	Floor *Floor `json:"floor"` // null in memory
	// of the floor's steps per second; null where it has another shape
	RatioSteps *float64 `json:"ratio_steps"`
	RatioP50   *float64 `json:"ratio_p50"` // of the floor's p50
}

// Sleeping is what is told of runs that sleep. Memory and goroutines are those of
// the process while all runs sleep and none is in memory, less those before the
// first was started, garbage collected and given back both times. Seconds, CPU and
// what follows from them are of the runs that wake, from when they are due to
// when the last end is durable.
type Sleeping struct {
	AsleepPerS float64 `json:"asleep_per_s"` // started and put to sleep, until none was in memory
	RSSGrowth  float64 `json:"rss_growth_mb"`
	Goroutines int     `json:"goroutines"`
	// calls to the store, of any kind, while all sleep
	IdleQueries float64 `json:"idle_queries_per_min"`
	IdleS       float64 `json:"idle_s"` // for which they were counted
	Due         int     `json:"due"`    // runs that are due at the same time
	// of them, from that time to when the code of the last has gone on
	WakePerS float64 `json:"wake_per_s"`
	// of them, from that time to when the last end was durable
	EndsPerS float64 `json:"ends_per_s"`
}

// Sending is what is told of signals to runs that are not in memory. Seconds and
// CPU are from the first call that sends one to the end of the last run.
type Sending struct {
	SignalsPerS float64 `json:"signals_per_s"` // to when the last run has taken its signal, durably
	SendP99     float64 `json:"send_p99_ms"`   // of a call
}

// Timing is what is told of timers. How late one is, is from its time to the time
// that its code records when it has gone on, both by the clock of the machine.
type Timing struct {
	DuePerS  float64 `json:"due_per_s"`
	LateP99  float64 `json:"late_p99_ms"`
	LateMost float64 `json:"late_max_ms"`
	Early    int     `json:"early"` // that went on before their time
}

// A Floor is the limit: what a bare loop makes of the same rows on the same
// disk, with the store's own statements, group by group. A figure is the median
// of the rounds, or the better of one before the workload and one after it.
type Floor struct {
	Runs       int     `json:"runs"`
	Steps      int     `json:"steps"`
	InFlight   int     `json:"in_flight"`
	StepsPerS  float64 `json:"steps_per_s"`
	P50        float64 `json:"p50_ms"`
	CPUPerStep float64 `json:"cpu_us_per_step"`
	// of the disk of this machine; not of a server's
	SyncsPerS float64 `json:"fdatasync_per_s,omitempty"`
	SyncP50   float64 `json:"fdatasync_p50_ms,omitempty"`
}

// set fills in what follows from how long the runs took.
func (r *Report) set(took []time.Duration, total, cpu time.Duration, runs int) {
	steps := float64(runs * r.Steps)
	r.Seconds, r.CPU, r.CPUPerStep = thousandths(total.Seconds()), thousandths(cpu.Seconds()),
		thousandths(float64(cpu.Microseconds())/steps)
	r.RunsPerS, r.StepsPerS = thousandths(float64(runs)/total.Seconds()),
		thousandths(steps/total.Seconds())
	r.P50, r.P99 = ms(took[len(took)/2]), ms(took[len(took)*99/100])
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// thousandths leaves three decimals: more would be noise.
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

// writeText writes the fields that JSON would, those of structs with a prefix.
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
