import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;

/** What has fired, in a stripe for each thread that fires, as in ledger.rs: so that several threads which count do not wait for each other. */
final class Ledger {
    /** The clock is read for the first of a burst on each thread, and for every 64th. */
    private static final int STAMP_EVERY = 64;
    /** Times that a stripe gets room for at once. */
    private static final int CHUNK = 4_096;

    private static final List<Stripe> STRIPES = new ArrayList<>();
    /** The only one, where one thread fires all: to find its own would take as long as some timers do. */
    private static final Stripe ONLY = Timers.ONE_THREAD ? Stripe.begin() : null;
    private static final ThreadLocal<Stripe> OWN = ThreadLocal.withInitial(Stripe::begin);

    /** Its thread alone writes. */
    private static final class Stripe {
        /** Places of the counts. There are 256 bytes on both sides, so that they share no cache line with those of another thread. */
        static final int FIRED = 32;
        static final int NOTED = 33;
        final AtomicLongArray counts = new AtomicLongArray(66);
        long[][] chunks = new long[0][];

        static Stripe begin() {
            Stripe stripe = new Stripe();
            synchronized (STRIPES) {
                STRIPES.add(stripe);
            }
            return stripe;
        }

        void note(long timeNs) {
            int number = (int) counts.getPlain(NOTED);
            if (number == chunks.length * CHUNK) {
                chunks = Arrays.copyOf(chunks, chunks.length + 1);
                chunks[chunks.length - 1] = new long[CHUNK];
            }
            chunks[number / CHUNK][number % CHUNK] = timeNs;
            counts.lazySet(NOTED, number + 1);
        }

        void fired() {
            counts.lazySet(FIRED, counts.getPlain(FIRED) + 1);
        }

        long[] noted() {
            // Before the chunks, which its thread has written before it.
            int number = (int) counts.get(NOTED);
            long[] noted = new long[number];
            for (int i = 0; i < number; i++) noted[i] = chunks[i / CHUNK][i % CHUNK];
            return noted;
        }
    }

    private Ledger() {}

    private static Stripe own() {
        return Timers.ONE_THREAD ? ONLY : OWN.get();
    }

    /** Begins anew. Nothing fires now. */
    static void begin() {
        synchronized (STRIPES) {
            for (Stripe stripe : STRIPES) {
                stripe.counts.set(Stripe.FIRED, 0);
                stripe.counts.set(Stripe.NOTED, 0);
                stripe.chunks = new long[0][];
            }
        }
    }

    /** One has fired, and nobody asks when. */
    static void bump() {
        own().fired();
    }

    /** One of a burst has fired. */
    static void stamp() {
        Stripe own = own();
        if ((own.counts.getPlain(Stripe.FIRED) & (STAMP_EVERY - 1)) == 0) own.note(System.nanoTime());
        own.fired();
    }

    /** One has fired that was due then. What is noted is how late it was, below 0 if it was early. */
    static void late(long dueNs) {
        long lateNs = System.nanoTime() - dueNs;
        Stripe own = own();
        own.note(lateNs);
        own.fired();
    }

    static long fired() {
        synchronized (STRIPES) {
            return STRIPES.stream().mapToLong(stripe -> stripe.counts.get(Stripe.FIRED)).sum();
        }
    }

    /** What has been noted, in order. */
    static long[] noted() {
        synchronized (STRIPES) {
            return STRIPES.stream().map(Stripe::noted).flatMapToLong(Arrays::stream).sorted().toArray();
        }
    }

    /** Of the times: the harness's own, and not the timers'. */
    static long bytes() {
        synchronized (STRIPES) {
            return STRIPES.stream().mapToLong(stripe -> (long) stripe.chunks.length * CHUNK * Long.BYTES).sum();
        }
    }
}
