// DPDK's rte_timer: each thread is registered as a core of DPDK's, and has the list of that core. It
// has no huge pages and no devices. The timers are the callers', here by malloc.
#define _GNU_SOURCE
#include "timers.h"
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static timers_fired tell;

struct own {
    unsigned core;
    uint64_t hz;
    // Timers that have not fired, of those that tell.
    uint64_t left;
};

struct timer {
    struct rte_timer timer;
    struct own *own;
    uint64_t due_ns;
};

static void fired(struct rte_timer *timer, void *argument) {
    struct timer *own = argument;
    (void)timer;
    if (own->due_ns) {
        own->own->left--;
        tell(own->due_ns);
    }
}

static uint64_t ticks(const struct own *own, uint64_t delay_ns) {
    // Rounded up: no timer is early.
    return (uint64_t)((__uint128_t)delay_ns * own->hz / 1000000000) + 1;
}

static void *enter(void) {
    struct own *own = calloc(1, sizeof *own);
    if (!own || rte_thread_register() < 0) {
        fprintf(stderr, "DPDK does not take the thread\n");
        exit(1);
    }
    own->core = rte_lcore_id();
    own->hz = rte_get_timer_hz();
    return own;
}

static void start(struct own *own, struct timer *timer, uint64_t delay_ns) {
    if (rte_timer_reset(&timer->timer, ticks(own, delay_ns), SINGLE, own->core, fired, timer)) {
        fprintf(stderr, "DPDK does not arm a timer\n");
        exit(1);
    }
}

static void *arm(void *own, uint64_t delay_ns, uint64_t due_ns) {
    struct own *mine = own;
    struct timer *timer = malloc(sizeof *timer);
    if (!timer) {
        fprintf(stderr, "no memory for a timer\n");
        exit(1);
    }
    rte_timer_init(&timer->timer);
    timer->own = mine;
    timer->due_ns = due_ns;
    if (due_ns)
        mine->left++;
    start(mine, timer, delay_ns);
    return timer;
}

static void cancel(void *own, void *handle) {
    struct timer *timer = handle;
    (void)own;
    rte_timer_stop(&timer->timer);
    free(timer);
}

static void rearm(void *own, void *handle, uint64_t delay_ns) { start(own, handle, delay_ns); }

// A call that has returned has taken the timer in, or out.
static void settle(void *own) { (void)own; }

static void serve(void *own) {
    struct own *mine = own;
    while (mine->left)
        rte_timer_manage();
}

static const struct timers_calls calls = {enter, arm, cancel, rearm, settle, serve};

const struct timers_calls *timers_open(timers_fired fired_then) {
    static char *arguments[] = {"timers",         "--no-huge", "--no-pci", "--no-shconf",
                                "--no-telemetry", "-m",        "64",       "--lcores=0",
                                "--log-level=1",  NULL};
    cpu_set_t cores;
    tell = fired_then;
    // The main thread is pinned by it, and threads are pinned as the thread that starts them.
    int known = sched_getaffinity(0, sizeof cores, &cores);
    if (rte_eal_init((int)(sizeof arguments / sizeof *arguments) - 1, arguments) < 0 ||
        rte_timer_subsystem_init() < 0) {
        fprintf(stderr, "DPDK does not start\n");
        return NULL;
    }
    if (known == 0)
        sched_setaffinity(0, sizeof cores, &cores);
    return &calls;
}
