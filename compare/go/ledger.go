package main

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// stripe counts what has fired of one producer's timers. Goroutines of any thread fire them.
type stripe struct {
	_     [128]byte
	fired atomic.Int64
	// How late each was, below 0 if it was early; or, of a burst, when every 64th ran.
	lateNs []int64
	_      [128]byte
}

// newStripe holds at most this number of latenesses. Its memory is touched.
func newStripe(most int) *stripe {
	stripe := &stripe{lateNs: make([]int64, most)}
	for i := range stripe.lateNs {
		stripe.lateNs[i] = math.MaxInt64
	}
	return stripe
}

func nothing() {}

func (stripe *stripe) note(dueNs int64) {
	lateNs := nowNs() - dueNs
	if number := stripe.fired.Add(1); number <= int64(len(stripe.lateNs)) {
		stripe.lateNs[number-1] = lateNs
	}
}

// stamp reads the clock for the first of a burst, and for every 64th.
func (stripe *stripe) stamp() {
	if number := stripe.fired.Add(1) - 1; number%64 == 0 {
		stripe.lateNs[number/64] = nowNs()
	}
}

// after arms a timer whose lateness is noted. dueNs has been read before the delay begins.
func (stripe *stripe) after(delayNs, dueNs int64) *time.Timer {
	return time.AfterFunc(time.Duration(delayNs), func() { stripe.note(dueNs) })
}

func fired(stripes []*stripe) int64 {
	sum := int64(0)
	for _, stripe := range stripes {
		sum += stripe.fired.Load()
	}
	return sum
}

// waitFor waits until this number has fired, or until it has taken too long.
func waitFor(stripes []*stripe, number int64, patience time.Duration) {
	for start := time.Now(); fired(stripes) < number && time.Since(start) < patience; {
		time.Sleep(patience / 100)
	}
}

// lateness tells how late all were that have fired.
func lateness(stripes []*stripe, figures figures) {
	var late []int64
	for _, stripe := range stripes {
		number := min(int(stripe.fired.Load()), len(stripe.lateNs))
		late = append(late, stripe.lateNs[:number]...)
	}
	// One that fires now may have been counted, and not yet noted.
	late = slices.DeleteFunc(late, func(ns int64) bool { return ns == math.MaxInt64 })
	slices.Sort(late)
	early := 0
	for early < len(late) && late[early] < 0 {
		early++
	}
	at := func(quantile float64) float64 {
		if len(late) == 0 {
			return 0
		}
		place := min(int(quantile*float64(len(late))), len(late)-1)
		return float64(max(late[place], 0)) / 1e6
	}
	figures["late_ms_p50"] = at(0.5)
	figures["late_ms_p99"] = at(0.99)
	figures["late_ms_p999"] = at(0.999)
	figures["late_ms_max"] = at(1)
	figures["early"] = float64(early)
}

func stripesOf(one *stripe) []*stripe {
	return []*stripe{one}
}
