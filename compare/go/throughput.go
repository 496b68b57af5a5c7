package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// blocks is how many blocks of operations the producers share.
func (job job) blocks() int64 {
	operations := max(100_000, min(2*int64(job.timers), job.pick(200_000, 2_000_000)))
	return (operations + block - 1) / block
}

// insert has producers take timers in blocks as they come along, as in throughput.rs. Before it
// measures, the collector has done its work.
func insert(job job) (figures, error) {
	phases := []func(*own){arm, cancel, armInBlocks(job)}
	if job.workload == "w1-cold" {
		phases = phases[2:]
	}
	all := func(int) int { return job.timers }
	var last cost
	watch := func(_ int, cost cost) {
		last = cost
		runtime.GC()
	}
	crew(owns(job, all), watch, phases...)
	return job.rates(job.timers, last), nil
}

func armInBlocks(job job) func(*own) {
	var next atomic.Int64
	return func(own *own) {
		place := 0
		for {
			begin := (int(next.Add(1)) - 1) * block
			if begin >= job.timers {
				return
			}
			for range min(block, job.timers-begin) {
				own.slots[place] = time.AfterFunc(own.delays[place], nothing)
				place++
			}
		}
	}
}

// pairs has two rounds, and the second one is measured. The first one makes the heap as large as it
// will be, and so does it for the heaps of the timers. Before both the collector has done its work.
func pairs(job job, window int) (figures, error) {
	var last cost
	watch := func(_ int, cost cost) {
		last = cost
		runtime.GC()
	}
	blocks := job.blocks()
	runtime.GC()
	crew(shares(job), watch, pairsInBlocks(blocks, window), pairsInBlocks(blocks, window))
	return job.rates(int(blocks)*block, last), nil
}

func pairsInBlocks(blocks int64, window int) func(*own) {
	var next atomic.Int64
	return func(*own) {
		ring := make([]*time.Timer, window)
		place := 0
		for next.Add(1) <= blocks {
			for range block {
				armed := time.AfterFunc(timeout, nothing)
				if window == 0 {
					armed.Stop()
					continue
				}
				if before := ring[place]; before != nil {
					before.Stop()
				}
				ring[place] = armed
				if place++; place == window {
					place = 0
				}
			}
		}
		for _, armed := range ring {
			if armed != nil {
				armed.Stop()
			}
		}
	}
}

// steps cancels a random own timer and arms another, or moves it.
func steps(job job, moves bool) (figures, error) {
	owns := shares(job)
	blocks := job.blocks()
	share := (int(blocks) + job.threads - 1) / job.threads * block
	for _, own := range owns {
		own.order = make([]int32, share)
		own.next = make([]time.Duration, share)
		for i := range own.order {
			own.order[i] = own.random.Int32N(int32(len(own.slots)))
			own.next[i] = delay(own.random)
		}
	}
	var next atomic.Int64
	var last cost
	crew(owns, func(_ int, cost cost) { last = cost }, arm, func(own *own) {
		step := 0
		for next.Add(1) <= blocks {
			for range block {
				place := own.order[step]
				if moves {
					own.slots[place].Reset(timeout)
				} else {
					own.slots[place].Stop()
					own.slots[place] = time.AfterFunc(own.next[step], nothing)
				}
				if step++; step == share {
					step = 0
				}
			}
		}
	})
	return job.rates(int(blocks)*block, last), nil
}

func cancelAll(job job) (figures, error) {
	var bytes [2]float64
	var figures figures
	patience := time.Duration(job.pick(second, 5*second))
	crew(shares(job), func(phase int, cost cost) {
		if phase < 2 {
			bytes[phase] = trimmedBytes()
		}
		if phase < 3 {
			return
		}
		figures = job.rates(job.timers, cost)
		for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			kept := max(0, trimmedBytes()-bytes[0])
			figures["kept_bytes"] = kept / float64(job.timers)
			if kept <= (bytes[1]-bytes[0])/5 {
				figures["back_ms"] = time.Since(start).Seconds() * 1e3
				return
			}
			if time.Since(start) > patience {
				return
			}
		}
	}, touch, arm, shuffle, cancel)
	return figures, nil
}

func memory(job job) (figures, error) {
	owns := shares(job)
	for _, own := range owns {
		for i := range own.delays {
			own.delays[i] += far / 10
		}
	}
	nothing := trimmedBytes()
	var bytes [2]float64
	crew(owns, func(phase int, _ cost) { bytes[phase] = trimmedBytes() }, touch, arm)
	return figures{
		"empty_bytes":     max(0, bytes[0]-nothing),
		"bytes_per_timer": max(0, bytes[1]-bytes[0]) / float64(job.timers),
	}, nil
}

func idle(job job) (figures, error) {
	owns := shares(job)
	for _, own := range owns {
		for i := range own.delays {
			own.delays[i] = far
		}
	}
	quiet, seconds := job.pick(3, 10), job.pick(1, 10)
	var figures figures
	crew(owns, func(int, cost) {
		time.Sleep(time.Duration(quiet * second))
		wakeups, cpu := switches(), cpuSeconds()
		time.Sleep(time.Duration(seconds * second))
		wakeups = switches() - wakeups
		figures = map[string]float64{
			"wakeups":       wakeups,
			"wakeups_per_s": wakeups / float64(seconds),
			"cpu_s":         cpuSeconds() - cpu,
		}
	}, arm)
	return figures, nil
}

// fire arms timers that are due uniformly over a time, and waits until they have fired.
func fire(job job, spreadNs int64) (figures, error) {
	owns := shares(job)
	offsets := make([][]int64, len(owns))
	stripes := make([]*stripe, len(owns))
	for t, own := range owns {
		offsets[t] = make([]int64, len(own.slots))
		for i := range offsets[t] {
			offsets[t][i] = own.random.Int64N(spreadNs + 1)
		}
		stripes[t] = newStripe(len(own.slots) + 64)
	}
	leadNs := job.pick(250_000_000, 500_000_000) + int64(job.timers)*4_000
	var firstNs atomic.Int64
	var figures figures
	var err error
	crew(owns, func(int, cost) {
		cpu := cpuSeconds()
		first := firstNs.Load()
		if nowNs() >= first {
			err = fmt.Errorf("%d timers were not armed in %d ms", job.timers, leadNs/1_000_000)
			return
		}
		last := first + spreadNs
		time.Sleep(time.Duration(last - nowNs()))
		for fired(stripes) < int64(job.timers) {
			if nowNs() > last+20*second {
				err = fmt.Errorf("%d of %d timers have fired", fired(stripes), job.timers)
				return
			}
			time.Sleep(time.Millisecond)
		}
		figures = map[string]float64{"cpu_s": cpuSeconds() - cpu}
		if spreadNs > 0 {
			lateness(stripes, figures)
			return
		}
		begin, end := int64(0), int64(0)
		for _, stripe := range stripes {
			for i := int64(0); i*64 < stripe.fired.Load(); i++ {
				if at := stripe.lateNs[i]; begin == 0 || at < begin {
					begin = at
				}
				end = max(end, stripe.lateNs[i])
			}
		}
		figures["first_ms"] = float64(begin-first) / 1e6
		figures["last_ms"] = float64(end-first) / 1e6
		figures["mops"] = float64(job.timers) / 1e3 / figures["last_ms"]
	}, func(own *own) {
		firstNs.CompareAndSwap(0, nowNs()+leadNs)
		first, stripe := firstNs.Load(), stripes[own.number]
		for i, offset := range offsets[own.number] {
			dueNs := first + offset
			delayNs := dueNs - nowNs()
			if spreadNs > 0 {
				own.slots[i] = stripe.after(delayNs, dueNs)
			} else {
				own.slots[i] = time.AfterFunc(time.Duration(delayNs), stripe.stamp)
			}
		}
	})
	return figures, err
}
