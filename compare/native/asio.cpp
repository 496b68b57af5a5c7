// Boost.Asio's steady_timer, with an io_context for each thread: it is told that no other thread
// uses it, so that it takes no locks.
#include "timers.h"
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace asio = boost::asio;

namespace {

timers_fired tell;

// Calls between two polls, which run the handlers of what was cancelled.
constexpr unsigned poll_every = 256;

struct Own {
    asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    // Is due before the others. An arm of the first one of all sets the kernel's timer.
    asio::steady_timer heartbeat{context};
    unsigned calls = 0;

    Own() { beat(); }

    void beat() {
        heartbeat.expires_after(std::chrono::milliseconds(500));
        heartbeat.async_wait([this](const boost::system::error_code &error) {
            if (!error)
                beat();
        });
    }

    void poll() {
        context.restart();
        context.poll();
    }

    void called() {
        if (++calls == poll_every) {
            calls = 0;
            poll();
        }
    }
};

// A timer, with room for its handler: so that a wait allocates nothing more.
struct Timer {
    asio::steady_timer timer;
    uint64_t due_ns;
    // Handlers that have not run.
    unsigned waits = 0;
    bool cancelled = false;
    bool room_is_taken = false;
    alignas(std::max_align_t) unsigned char room[128];

    Timer(Own &own, uint64_t due_ns) : timer(own.context), due_ns(due_ns) {}
};

template <typename T> struct Room {
    using value_type = T;
    Timer *of;

    explicit Room(Timer *of) : of(of) {}
    template <typename U> Room(const Room<U> &other) : of(other.of) {}

    T *allocate(std::size_t number) {
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

void wait(Timer *timer, uint64_t delay_ns) {
    timer->timer.expires_after(std::chrono::nanoseconds(delay_ns));
    timer->waits++;
    timer->timer.async_wait(Handler{timer});
}

void *enter() { return new Own; }

void *arm(void *own, uint64_t delay_ns, uint64_t due_ns) {
    Own &mine = *static_cast<Own *>(own);
    Timer *timer = new Timer(mine, due_ns);
    wait(timer, delay_ns);
    mine.called();
    return timer;
}

void cancel(void *own, void *handle) {
    Timer *timer = static_cast<Timer *>(handle);
    timer->cancelled = true;
    if (timer->waits == 0)
        delete timer;
    else
        timer->timer.cancel();
    static_cast<Own *>(own)->called();
}

void rearm(void *own, void *handle, uint64_t delay_ns) {
    wait(static_cast<Timer *>(handle), delay_ns);
    static_cast<Own *>(own)->called();
}

void settle(void *own) { static_cast<Own *>(own)->poll(); }

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
