package main

import (
	"math/rand/v2"
	"time"
)

// As in paced.rs.
const (
	step       = time.Millisecond
	stepsPerS  = 1_000
	unanswered = 100
	leadNs     = int64(50_000_000)
	spreadNs   = int64(500_000_000)
	// How long to wait for timers that have not fired though they are due.
	patience = 2 * time.Second
)

// load is what a producer's step does, and what it has done.
type load struct {
	job      job
	number   int
	random   *rand.Rand
	requests [][]*time.Timer
	stripe   *stripe
	// Whether one request in a hundred is not answered.
	some     bool
	steps    int
	armed    int64
	armedDue int64
}

func newLoad(job job, number, answerSteps int, stripe *stripe) *load {
	return &load{
		job:      job,
		number:   number,
		random:   newRandom(job.seed, uint64(7919+number)),
		requests: make([][]*time.Timer, answerSteps),
		stripe:   stripe,
	}
}

func (load *load) until(step int) int64 {
	return (int64(load.job.timers)*int64(step) + int64(load.number)*stepsPerS) / int64(stepsPerS*load.job.threads)
}

// step without a stripe arms nothing: what the loop takes by itself.
func (load *load) step() {
	step := load.steps
	load.steps++
	var place *[]*time.Timer
	if len(load.requests) > 0 {
		place = &load.requests[step%len(load.requests)]
		for i, request := range *place {
			if request != nil {
				request.Stop()
			}
			(*place)[i] = nil
		}
		*place = (*place)[:0]
	}
	timers := load.until(step+1) - load.until(step)
	for range timers {
		if place != nil && !(load.some && load.random.IntN(unanswered) == 0) {
			var request *time.Timer
			if load.stripe != nil {
				request = time.AfterFunc(timeout, nothing)
			}
			*place = append(*place, request)
			continue
		}
		delayNs := leadNs + load.random.Int64N(spreadNs)
		dueNs := nowNs() + delayNs
		if load.stripe != nil {
			load.stripe.after(delayNs, dueNs)
		}
		load.armedDue++
	}
	load.armed += timers
}

// used is what the process has used within some steps.
type used struct {
	seconds float64
	cpu     float64
	wakeups float64
	timers  int64
}

// take has all producers take the steps before, and those that are measured. A goroutine's sleep is
// the runtime's work, as its timers are: so CPU time and wake-ups are those of the process.
func take(loads []*load, before, steps int) used {
	gate := newGate(len(loads) + 1)
	for _, load := range loads {
		go func() {
			start := time.Now()
			run := func(from, until int) {
				for number := from; number < until; number++ {
					load.step()
					time.Sleep(time.Until(start.Add(step * time.Duration(number+1))))
				}
			}
			run(0, before)
			gate.wait()
			gate.wait()
			run(before, before+steps)
			gate.wait()
		}()
	}
	armed := func() int64 {
		sum := int64(0)
		for _, load := range loads {
			sum += load.armed
		}
		return sum
	}
	gate.wait()
	start, cpu, wakeups, timers := nowNs(), cpuSeconds(), switches(), armed()
	gate.wait()
	gate.wait()
	return used{
		seconds: float64(nowNs()-start) / 1e9,
		cpu:     cpuSeconds() - cpu,
		wakeups: switches() - wakeups,
		timers:  armed() - timers,
	}
}

// tell leaves out what the loop takes alone.
func (measured used) tell(figures figures, perTimer string, alone used) {
	cpu := measured.cpu/measured.seconds - alone.cpu/alone.seconds
	figures[perTimer] = cpu * 1e6 * measured.seconds / float64(max(1, measured.timers))
	figures["cpu_percent"] = cpu * 100
	wakeups := measured.wakeups/measured.seconds - alone.wakeups/alone.seconds
	figures["wakeups_per_s"] = max(0, wakeups)
	figures["timers_per_s"] = float64(measured.timers) / measured.seconds
}

// stretch is the steps before the measured ones, and those.
type stretch struct{ before, steps int }

// loops measures the loop alone, and with timers. Of two stretches the second one has requests that
// are not answered.
func loops(job job, answerSteps int, perTimer string, stretches []stretch) (figures, error) {
	loads := func(stripes []*stripe) []*load {
		loads := make([]*load, job.threads)
		for t := range loads {
			loads[t] = newLoad(job, t, answerSteps, stripes[t])
		}
		return loads
	}
	some := func(loads []*load, number int) []*load {
		for _, load := range loads {
			load.some = number > 0
		}
		return loads
	}
	var alone []used
	idle := loads(make([]*stripe, job.threads))
	for number, stretch := range stretches {
		before := min(stretch.before, answerSteps+50)
		alone = append(alone, take(some(idle, number), before, int(job.pick(100, 600))))
	}
	stripes := make([]*stripe, job.threads)
	for t := range stripes {
		stripes[t] = newStripe(5*job.timers/job.threads + 64)
	}
	busy := loads(stripes)
	figures := figures{}
	for number, stretch := range stretches {
		measured := take(some(busy, number), stretch.before, stretch.steps)
		if number == 0 {
			measured.tell(figures, perTimer, alone[number])
			continue
		}
		fires := map[string]float64{}
		measured.tell(fires, perTimer, alone[number])
		for _, name := range []string{"cpu_percent", "wakeups_per_s"} {
			figures["fires_"+name] = fires[name]
		}
	}
	due := int64(0)
	for _, load := range busy {
		due += load.armedDue
	}
	time.Sleep(time.Duration(leadNs + spreadNs))
	waitFor(stripes, due, patience)
	figures["lost"] = float64(max(0, due-fired(stripes)))
	lateness(stripes, figures)
	delete(figures, "late_ms_p999")
	return figures, nil
}

func fires(job job) (figures, error) {
	return loops(job, 0, "cpu_us_per_fire", []stretch{{int(job.pick(200, 1_000)), int(job.pick(200, 3_000))}})
}

func server(job job, answerMs int) (figures, error) {
	return loops(job, answerMs, "cpu_us_per_request", []stretch{
		{answerMs + int(job.pick(50, 1_000)), int(job.pick(200, 2_000))},
		{int(job.pick(100, 600)), int(job.pick(200, 1_500))},
	})
}

// again arms a timer that comes again each second: what runs moves it.
func (stripe *stripe) again(dueNs int64) {
	var timer *time.Timer
	begun := make(chan struct{})
	timer = time.AfterFunc(time.Duration(dueNs-nowNs()), func() {
		<-begun
		stripe.note(dueNs)
		dueNs += second
		timer.Reset(time.Duration(dueNs - nowNs()))
	})
	close(begun)
}

// periodic has timers that come again each second, at random instants of a time, or all at one.
func periodic(job job, phasesNs int64) (figures, error) {
	random := newRandom(job.seed, 7919)
	stripe := newStripe(10*job.timers + 64)
	firstNs := nowNs() + 200_000_000 + 10_000*int64(job.timers)
	untilFirst := firstNs - nowNs()
	for range job.timers {
		dueNs := firstNs
		if phasesNs > 0 {
			dueNs += random.Int64N(phasesNs)
		}
		stripe.again(dueNs)
	}
	// From the middle of a second on, so that a burst is inside or outside.
	settled := untilFirst + max(phasesNs, second/2)
	time.Sleep(time.Duration(settled / job.pick(4, 1)))
	start, cpu, wakeups, before := nowNs(), cpuSeconds(), switches(), stripe.fired.Load()
	time.Sleep(time.Duration(job.pick(second/2, 3*second)))
	measured := used{
		seconds: float64(nowNs()-start) / 1e9,
		cpu:     cpuSeconds() - cpu,
		wakeups: switches() - wakeups,
		timers:  stripe.fired.Load() - before,
	}
	figures := figures{}
	measured.tell(figures, "cpu_us_per_fire", used{seconds: 1})
	lateness(stripesOf(stripe), figures)
	delete(figures, "late_ms_p999")
	return figures, nil
}
