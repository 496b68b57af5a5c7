import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The scheduler of JDK 25's ForkJoinPool: a thread with a heap, and a worker for each core that runs what is due. */
final class Timers {
    static final boolean ONE_THREAD = false;
    static final boolean PERIODIC = true;

    /** As the pool calls its threads; the system keeps 15 letters. */
    private static final String WORKERS = "ForkJoinPool-";

    /** By an interface that it has since JDK 25, so that an older compiler does. */
    private final ScheduledExecutorService pool = (ScheduledExecutorService) (Object) new ForkJoinPool(Runtime.getRuntime().availableProcessors());

    Object arm(Task task, long delayNs) {
        return pool.schedule(task, delayNs, TimeUnit.NANOSECONDS);
    }

    static void cancel(Object armed) {
        ((Future<?>) armed).cancel(false);
    }

    void every(Task task, long delayNs, long periodNs) {
        pool.scheduleAtFixedRate(task, delayNs, periodNs, TimeUnit.NANOSECONDS);
    }

    /** The scheduler takes all that was handed over before it looks what is due. A timer without a delay would go to the workers at once. */
    void settle() throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        pool.schedule(done::countDown, 1, TimeUnit.NANOSECONDS);
        done.await();
    }

    void stop() throws InterruptedException {
        pool.shutdownNow();
        pool.awaitTermination(1, TimeUnit.MINUTES);
    }

    static boolean isWorker(String thread) {
        return thread.startsWith(WORKERS);
    }
}
