// Boost.Asio's timer of the steady clock, with an io_context for each thread: it is told that no
// other thread uses it, so that it takes no locks. The timer has the type of the context's executor
// in place of the any_io_executor that a steady_timer has.
#include "timers.h"
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace asio = boost::asio;

namespace {

using Clock = std::chrono::steady_clock;
using Steady = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>,
                                          asio::io_context::executor_type>;

timers_fired tell;

// Calls between two polls, which run the handlers of what was cancelled. The loop reads the clock
// before each.
constexpr unsigned poll_every = 256;

struct Own {
    asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    // Is due before the others. An arm of the first one of all sets the kernel's timer.
    Steady heartbeat{context};
    unsigned calls = 0;
    Clock::time_point now = Clock::now();

    Own() { beat(); }

    void beat() {
        heartbeat.expires_after(std::chrono::milliseconds(500));
        heartbeat.async_wait([this](const boost::system::error_code &error) {
            if (!error)
                beat();
        });
    }

    void poll() {
        now = Clock::now();
        context.restart();
        context.poll();
    }

    void called() {
        if (++calls == poll_every) {
            calls = 0;
            poll();
        }
    }

    // When a timer is due that is armed now. The clock is read for each of which somebody asks how
    // late it is.
    Clock::time_point after(uint64_t delay_ns, uint64_t due_ns) {
        if (due_ns)
            now = Clock::now();
        return now + std::chrono::nanoseconds(delay_ns);
    }
};

// A timer, with room for its handler: so that a wait allocates nothing more.
struct Timer {
    Steady timer;
    uint64_t due_ns;
    // Handlers that have not run.
    unsigned waits = 0;
    bool cancelled = false;
    bool room_is_taken = false;
    // What Asio allocates takes 56 bytes by Boost 1.74, and 72 by 1.81.
    alignas(std::max_align_t) unsigned char room[80];

    Timer(Own &own, uint64_t due_ns) : timer(own.context), due_ns(due_ns) {}
};

template <typename T> struct Room {
    using value_type = T;
    Timer *of;

    explicit Room(Timer *of) : of(of) {}
    template <typename U> Room(const Room<U> &other) : of(other.of) {}

    T *allocate(std::size_t number) {
        static_assert(sizeof(T) <= sizeof of->room, "the room is too small for a handler");
        if (!of->room_is_taken && sizeof(T) * number <= sizeof of->room) {
            of->room_is_taken = true;
            return reinterpret_cast<T *>(of->room);
        }
        return static_cast<T *>(::operator new(sizeof(T) * number));
    }

    void deallocate(T *memory, std::size_t) {
        if (reinterpret_cast<unsigned char *>(memory) == of->room)
            of->room_is_taken = false;
        else
            ::operator delete(memory);
    }

    template <typename U> bool operator==(const Room<U> &other) const { return of == other.of; }
    template <typename U> bool operator!=(const Room<U> &other) const { return of != other.of; }
};

struct Handler {
    using allocator_type = Room<void>;
    Timer *of;

    allocator_type get_allocator() const { return allocator_type(of); }

    void operator()(const boost::system::error_code &error) const {
        if (!error && of->due_ns)
            tell(of->due_ns);
        if (--of->waits == 0 && of->cancelled)
            delete of;
    }
};

void wait(Timer *timer, Clock::time_point due) {
    timer->timer.expires_at(due);
    timer->waits++;
    timer->timer.async_wait(Handler{timer});
}

void *enter() { return new Own; }

void *arm(void *own, uint64_t delay_ns, uint64_t due_ns) {
    Own &mine = *static_cast<Own *>(own);
    mine.called();
    Timer *timer = new Timer(mine, due_ns);
    wait(timer, mine.after(delay_ns, due_ns));
    return timer;
}

void cancel(void *own, void *handle) {
    Timer *timer = static_cast<Timer *>(handle);
    static_cast<Own *>(own)->called();
    timer->cancelled = true;
    if (timer->waits == 0)
        delete timer;
    else
        timer->timer.cancel();
}

void rearm(void *own, void *handle, uint64_t delay_ns) {
    Own &mine = *static_cast<Own *>(own);
    mine.called();
    wait(static_cast<Timer *>(handle), mine.after(delay_ns, 0));
}

// The next phase begins with a reading of the clock.
void settle(void *own) {
    Own &mine = *static_cast<Own *>(own);
    mine.poll();
    mine.calls = poll_every - 1;
}

void serve(void *own) {
    Own &mine = *static_cast<Own *>(own);
    mine.heartbeat.cancel();
    mine.context.restart();
    mine.context.run();
}

const timers_calls calls = {enter, arm, cancel, rearm, settle, serve};

} // namespace

const timers_calls *timers_open(timers_fired fired) {
    tell = fired;
    return &calls;
}
