// What a library of timers in C or C++ offers to compare/timers: see subjects/library.rs there.
//
// Timers are those of the thread that armed them. It alone calls, with what it got from enter.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Tells that a timer has fired that was due then.
typedef void (*timers_fired)(uint64_t due_ns);

struct timers_calls {
    // The timers of the calling thread. They live as long as the process.
    void *(*enter)(void);
    // A timer that tells the due time when it fires, unless that is 0.
    void *(*arm)(void *own, uint64_t delay_ns, uint64_t due_ns);
    // It may have fired. Its memory is free again after settle.
    void (*cancel)(void *own, void *timer);
    // One that has not fired.
    void (*rearm)(void *own, void *timer, uint64_t delay_ns);
    // Takes in what was handed over.
    void (*settle)(void *own);
    // Fires what is armed until nothing is left.
    void (*serve)(void *own);
};

// Begins. Returns the calls, or 0 after a line on standard error.
const struct timers_calls *timers_open(timers_fired fired);

#ifdef __cplusplus
}
#endif
