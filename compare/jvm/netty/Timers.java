import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Netty's wheel: a tick of 1 ms, and slots for a minute of them. */
final class Timers {
    /** All tasks run on the wheel's own thread. */
    static final boolean ONE_THREAD = true;
    /** There are no periodic timers: a task arms its own anew. */
    static final boolean PERIODIC = false;

    private static final int SLOTS = 65_536;
    private static final String WORKER = "netty-wheel";

    private final HashedWheelTimer wheel = new HashedWheelTimer(work -> new Thread(work, WORKER), 1, TimeUnit.MILLISECONDS, SLOTS, false);

    Timers() {
        wheel.start();
    }

    Object arm(Task task, long delayNs) {
        return wheel.newTimeout(task, delayNs, TimeUnit.NANOSECONDS);
    }

    static void cancel(Object armed) {
        ((Timeout) armed).cancel();
    }

    void every(Task task, long delayNs, long periodNs) {
        throw new IllegalStateException("no periodic timers");
    }

    /**
     * Waits until the wheel has taken in what was handed over. Its queues are first in, first out, and cancellations come before insertions in each tick: when a
     * timeout that is armed now fires, all is done.
     */
    void settle() throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        wheel.newTimeout(timeout -> done.countDown(), 0, TimeUnit.NANOSECONDS);
        done.await();
    }

    void stop() {
        wheel.stop();
    }

    static boolean isWorker(String thread) {
        return thread.equals(WORKER);
    }
}
