package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// Timers whose slots take 256 bytes: what is behind them shares no cache line with what is in
	// front, nor its neighbour.
	apart   = 32
	timeout = 30 * time.Second
	far     = time.Hour
	// The window of w2b.
	window = 1_000
	// Operations that a producer takes at once, as in throughput.rs.
	block = 4_096
)

// own is what a producer owns.
type own struct {
	number int
	random *rand.Rand
	slots  []*time.Timer
	delays []time.Duration
	order  []int32
	next   []time.Duration
}

func delay(random *rand.Rand) time.Duration {
	return time.Duration(second + random.Int64N(59*second+1))
}

// newRandom has its state apart from that of another goroutine, by 256 bytes.
func newRandom(seed, number uint64) *rand.Rand {
	state := &struct {
		_   [256]byte
		pcg rand.PCG
		_   [256]byte
	}{pcg: *rand.NewPCG(seed, number)}
	return rand.New(&state.pcg)
}

// touched is room for this many timers, in memory that has been written to, and apart from that of
// another goroutine.
func touched(timers int) []*time.Timer {
	slots := make([]*time.Timer, timers, timers+apart)
	clear(slots)
	return slots
}

// shares are the timers shared out among the producers.
func shares(job job) []*own {
	return owns(job, func(t int) int { return job.timers*(t+1)/job.threads - job.timers*t/job.threads })
}

// owns has that many timers for each producer.
func owns(job job, share func(int) int) []*own {
	owns := make([]*own, job.threads)
	for t := range owns {
		share := share(t)
		random := newRandom(job.seed, uint64(t))
		own := &own{number: t, random: random, slots: touched(share)}
		own.delays = make([]time.Duration, share)
		for i := range own.delays {
			own.delays[i] = delay(random)
		}
		owns[t] = own
	}
	return owns
}

func arm(own *own) {
	for i, delay := range own.delays {
		own.slots[i] = time.AfterFunc(delay, nothing)
	}
}

func touch(*own) {
	time.AfterFunc(timeout, nothing).Stop()
}

func cancel(own *own) {
	for i, timer := range own.slots {
		if timer != nil {
			timer.Stop()
		}
		own.slots[i] = nil
	}
}

func shuffle(own *own) {
	own.random.Shuffle(len(own.slots), func(i, j int) {
		own.slots[i], own.slots[j] = own.slots[j], own.slots[i]
	})
}

// gate is where a number of goroutines meet.
type gate struct {
	lock    sync.Mutex
	all     *sync.Cond
	number  int
	waiting int
	round   int
}

func newGate(number int) *gate {
	gate := &gate{number: number}
	gate.all = sync.NewCond(&gate.lock)
	return gate
}

func (gate *gate) wait() {
	gate.lock.Lock()
	defer gate.lock.Unlock()
	gate.waiting++
	if gate.waiting == gate.number {
		gate.waiting = 0
		gate.round++
		gate.all.Broadcast()
		return
	}
	for round := gate.round; round == gate.round; {
		gate.all.Wait()
	}
}

// isFull is whether all but one wait.
func (gate *gate) isFull() bool {
	gate.lock.Lock()
	defer gate.lock.Unlock()
	return gate.waiting == gate.number-1
}

// cost is what a phase took.
type cost struct {
	seconds float64
	cpu     float64
}

// crew takes one goroutine for each of owns through the phases, each on a pinned thread, and tells
// watch the number and the cost of each. What Stop has marked may still be in a heap after it: a
// producer that waits leaves that to the scheduler.
func crew(owns []*own, watch func(int, cost), phases ...func(*own)) {
	gate := newGate(len(owns) + 1)
	for number, own := range owns {
		go func() {
			pin(number, len(owns))
			for _, phase := range phases {
				gate.wait()
				phase(own)
				gate.wait()
			}
			// What is armed stays so until it was looked at.
			gate.wait()
		}()
	}
	for number := range phases {
		for !gate.isFull() {
			time.Sleep(time.Millisecond)
		}
		start, cpu := nowNs(), cpuSeconds()
		gate.wait()
		gate.wait()
		watch(number, cost{float64(nowNs()-start) / 1e9, cpuSeconds() - cpu})
	}
}

func (job job) rates(operations int, cost cost) figures {
	millions := float64(operations) / 1e6
	return figures{
		"mops":          millions / cost.seconds,
		"ns_per_op":     cost.seconds * 1e3 * float64(job.threads) / millions,
		"cpu_s_per_mop": cost.cpu / millions,
		"settle_ms":     0,
	}
}
