// One measurement of the timers of Go's runtime, by the rules of compare/timers/src: the same
// arguments as its `measure`, the figures as one JSON object on standard output.
//
// A timer is armed by time.AfterFunc, cancelled by Stop and moved by Reset. What fires runs in a
// goroutine of its own. AfterFunc takes a timer in inside the call. Stop only marks it: it stays in
// the heap of its P until an insert meets it at the head or the tail, or the scheduler finds that
// more than a quarter of the heap are marked. Its memory then waits for the collector. There is no
// call that waits for either, so nothing is settled.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

// job is one measurement.
type job struct {
	workload string
	timers   int
	threads  int
	seed     uint64
	quick    bool
}

type figures map[string]float64

// workloads are those that Go's timers take part in.
var workloads = map[string]func(job) (figures, error){
	"w1":          insert,
	"w1-cold":     insert,
	"w2":          func(job job) (figures, error) { return pairs(job, 0) },
	"w2b":         func(job job) (figures, error) { return pairs(job, window) },
	"w3":          func(job job) (figures, error) { return steps(job, false) },
	"w4":          cancelAll,
	"w5":          func(job job) (figures, error) { return fire(job, job.pick(second/2, 2*second)) },
	"w5b":         func(job job) (figures, error) { return fire(job, 0) },
	"w6":          memory,
	"w7":          idle,
	"w8":          func(job job) (figures, error) { return steps(job, true) },
	"w9":          fires,
	"w9-periodic": func(job job) (figures, error) { return periodic(job, second) },
	"w9-instant":  func(job job) (figures, error) { return periodic(job, 0) },
	"w10":         func(job job) (figures, error) { return server(job, 50) },
	"w10-fast":    func(job job) (figures, error) { return server(job, 5) },
	"w10-slow":    func(job job) (figures, error) { return server(job, 500) },
	"w11":         func(job job) (figures, error) { return inFlight(job, "same") },
	"w11-other":   func(job job) (figures, error) { return inFlight(job, "other") },
	"w11-random":  func(job job) (figures, error) { return inFlight(job, "random") },
}

// pick is the first of the two in a quick run.
func (job job) pick(quick, usual int64) int64 {
	if job.quick {
		return quick
	}
	return usual
}

func main() {
	// The thread that looks at the others is none of them.
	runtime.LockOSThread()
	time.AfterFunc(time.Hour, nothing).Stop()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Goroutines end with the process.
	os.Exit(0)
}

func run() error {
	var job job
	if len(os.Args) < 2 || os.Args[1] != "measure" {
		return fmt.Errorf("not `measure`")
	}
	arguments := flag.NewFlagSet("measure", flag.ContinueOnError)
	arguments.String("subject", "", "")
	arguments.StringVar(&job.workload, "workload", "", "")
	arguments.IntVar(&job.timers, "timers", 0, "")
	arguments.IntVar(&job.threads, "threads", 0, "")
	arguments.Uint64Var(&job.seed, "seed", 0, "")
	arguments.BoolVar(&job.quick, "quick", false, "")
	if err := arguments.Parse(os.Args[2:]); err != nil {
		return err
	}
	measure := workloads[job.workload]
	if measure == nil {
		return fmt.Errorf("no workload %s", job.workload)
	}
	if job.timers < 1 || job.threads < 1 {
		return fmt.Errorf("timers and threads are missing")
	}
	figures, err := measure(job)
	if err != nil {
		return err
	}
	text, err := json.Marshal(figures)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}
