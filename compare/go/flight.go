package main

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// As in in_flight/.
const (
	flightBlock = 256
	slack       = 4_096
	spins       = 64
	nap         = 20 * time.Microsecond
	probeDelay  = 5 * time.Millisecond
)

// ring has timers on their way from the goroutine that arms to the one that cancels.
type ring struct {
	slots      []*time.Timer
	_          [128]byte
	pushed     atomic.Int64
	poppedSeen int64
	_          [128]byte
	popped     atomic.Int64
	pushedSeen int64
	_          [128]byte
	closed     atomic.Bool
}

func (ring *ring) push(timer *time.Timer) bool {
	number := ring.pushed.Load()
	if number-ring.poppedSeen == int64(len(ring.slots)) {
		ring.poppedSeen = ring.popped.Load()
		if number-ring.poppedSeen == int64(len(ring.slots)) {
			return false
		}
	}
	ring.slots[number%int64(len(ring.slots))] = timer
	ring.pushed.Store(number + 1)
	return true
}

// popBeyond is the oldest one, if there are more than held.
func (ring *ring) popBeyond(held int) *time.Timer {
	number := ring.popped.Load()
	if ring.pushedSeen-number <= int64(held) {
		ring.pushedSeen = ring.pushed.Load()
		if ring.pushedSeen-number <= int64(held) {
			return nil
		}
	}
	place := number % int64(len(ring.slots))
	timer := ring.slots[place]
	ring.slots[place] = nil
	ring.popped.Store(number + 1)
	return timer
}

func (ring *ring) isOver() bool {
	return ring.closed.Load() && ring.pushed.Load() == ring.popped.Load()
}

func pause(looks *int) {
	if *looks++; *looks >= spins {
		time.Sleep(nap)
	}
}

// flier is a goroutine of w11, and what it has done while the windows were full.
type flier struct {
	core  int
	pairs int64
	ns    int64
	fly   func(*flier)
}

var landed atomic.Bool

// both arms, and cancels what was armed a window of inserts ago, or a random one.
func both(window []*time.Timer, random *rand.Rand) func(*flier) {
	return func(flier *flier) {
		for i := range window {
			if i%flightBlock == 0 && landed.Load() {
				break
			}
			window[i] = time.AfterFunc(timeout, nothing)
		}
		// Counted here: those of two goroutines may share a cache line.
		start, place, pairs := nowNs(), 0, int64(0)
		for !landed.Load() {
			for range flightBlock {
				armed := time.AfterFunc(timeout, nothing)
				if random != nil {
					place = random.IntN(len(window))
				}
				if before := window[place]; before != nil {
					before.Stop()
				}
				window[place] = armed
				if random == nil {
					if place++; place == len(window) {
						place = 0
					}
				}
			}
			pairs += flightBlock
		}
		flier.pairs, flier.ns = pairs, nowNs()-start
		for i, timer := range window {
			if timer != nil {
				timer.Stop()
			}
			window[i] = nil
		}
	}
}

func arms(ring *ring) func(*flier) {
	return func(*flier) {
		for !landed.Load() {
			for range flightBlock {
				armed, looks := time.AfterFunc(timeout, nothing), 0
				for !ring.push(armed) {
					pause(&looks)
				}
			}
		}
		ring.closed.Store(true)
	}
}

func cancels(ring *ring, held int) func(*flier) {
	return func(flier *flier) {
		start, looks, pairs := int64(0), 0, int64(0)
		for !landed.Load() {
			for range flightBlock {
				timer := ring.popBeyond(held)
				if timer == nil {
					pause(&looks)
					break
				}
				if start == 0 {
					start = nowNs()
				}
				looks = 0
				timer.Stop()
				pairs++
			}
		}
		if start != 0 {
			flier.pairs, flier.ns = pairs, nowNs()-start
		}
		for !ring.isOver() {
			if timer := ring.popBeyond(0); timer != nil {
				timer.Stop()
			} else {
				pause(&looks)
			}
		}
	}
}

// inFlight arms at full speed and cancels a window of inserts later, with a probe beside it.
func inFlight(job job, cancelledBy string) (figures, error) {
	timeNs := job.pick(300_000_000, 3*second)
	var fliers []*flier
	for t := range job.threads {
		if cancelledBy == "other" {
			ring := &ring{slots: touched(job.timers + slack)}
			fliers = append(fliers, &flier{core: t, fly: arms(ring)}, &flier{core: t + 1, fly: cancels(ring, job.timers)})
			continue
		}
		var random *rand.Rand
		if cancelledBy == "random" {
			random = newRandom(job.seed, uint64(4007+t))
		}
		fliers = append(fliers, &flier{core: t, fly: both(touched(job.timers), random)})
	}
	probes := newStripe(int(timeNs/int64(step)) + 64)
	gate := newGate(len(fliers) + 1)
	for _, flier := range fliers {
		go func() {
			pin(flier.core, len(fliers))
			gate.wait()
			flier.fly(flier)
			gate.wait()
			// What it owns lives until memory was looked at.
			gate.wait()
		}()
	}
	for !gate.isFull() {
		time.Sleep(time.Millisecond)
	}
	before := residentBytes()
	probed := make(chan int64)
	gate.wait()
	go func() {
		armed := int64(0)
		for !landed.Load() && armed < int64(len(probes.lateNs)) {
			probes.after(int64(probeDelay), nowNs()+int64(probeDelay))
			armed++
			time.Sleep(step)
		}
		probed <- armed
	}()
	start, cpu := nowNs(), cpuSeconds()
	var during []float64
	for left := timeNs; left > 0; left = timeNs - (nowNs() - start) {
		time.Sleep(time.Duration(min(left, 100_000_000)))
		during = append(during, max(0, residentBytes()-before))
	}
	landed.Store(true)
	gate.wait()
	cpu = cpuSeconds() - cpu
	pairs, rate := int64(0), 0.0
	for _, flier := range fliers {
		pairs += flier.pairs
		if flier.ns > 0 {
			rate += float64(flier.pairs) / 1e6 / (float64(flier.ns) / 1e9)
		}
	}
	armed := <-probed
	time.Sleep(time.Second)
	left := max(0, trimmedBytes()-before)
	gate.wait()
	waitFor(stripesOf(probes), armed, 10*time.Second)
	last := during[len(during)*2/3:]
	slices.Sort(last)
	figures := figures{
		"mops":                rate,
		"cpu_s_per_mop":       cpu / (float64(max(1, pairs)) / 1e6),
		"settle_ms":           0,
		"resident_bytes_last": last[len(last)/2],
		"resident_bytes_max":  slices.Max(during),
		"left_bytes":          left,
		"lost":                float64(max(0, armed-probes.fired.Load())),
	}
	lateness(stripesOf(probes), figures)
	delete(figures, "late_ms_p999")
	return figures, nil
}
