import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;

/**
 * One measurement of the timers of a Java library, by the rules of compare/timers/src: the same arguments as its `measure`, the figures as one JSON object on standard output.
 * Which timers they are is in Timers and Task, of one of the folders beside this file.
 * The workloads are those of throughput.rs, fires.rs, rest.rs, paced.rs and in_flight.rs. Bytes are those of the heap's live objects: what a process of a virtual machine keeps resident says little.
 */
final class Rival {
    private static final long SECOND_NS = 1_000_000_000L;
    private static final long TIMEOUT_NS = 30 * SECOND_NS;
    private static final long FAR_NS = 3_600 * SECOND_NS;
    private static final int WINDOW = 1_000;
    private static final int BLOCK = 4_096;
    private static final long ARMING_NS = 500_000_000L;
    private static final long ARMING_NS_EACH = 4_000;
    private static final long PATIENCE_NS = 20 * SECOND_NS;
    private static final int KEPT_PERCENT = 20;
    private static final String PRODUCER = "producer-";
    /** As in paced.rs. */
    private static final long STEP_NS = 1_000_000;
    private static final int STEPS_PER_S = 1_000;
    private static final int UNANSWERED = 100;
    private static final long LEAD_NS = 50_000_000L;
    private static final long SPREAD_NS = 500_000_000L;
    private static final long ARMING_PERIODIC_NS = 200_000_000L;
    private static final long ARMING_PERIODIC_NS_EACH = 10_000;
    /** What rests has nothing to rehearse. The paced workloads have rehearsals of their own. */
    private static final Set<String> UNREHEARSED = Set.of("w6", "w7", "w9", "w9-periodic", "w9-instant", "w10", "w10-fast", "w10-slow");
    /** What the phases of the rehearsals take in all; or, where there are few timers, what all of it takes. */
    private static final long REHEARSED_NS = 2 * SECOND_NS;
    private static final long REHEARSING_NS = 5 * SECOND_NS;
    /** Steps of a rehearsal of a paced workload, for the compiler, and timers in each. */
    private static final int REHEARSAL = 40_000;
    private static final int REHEARSED = 10;
    /** As in in_flight/. */
    private static final int FLIGHT_BLOCK = 256;
    private static final long GOLDEN = 0x9e3779b97f4a7c15L;
    private static final int SLACK = 4_096;
    private static final int SPINS = 64;
    private static final long NAP_NS = 20_000;
    private static final long PROBE_NS = 5_000_000L;

    private static final Task BUMP = new Task() {
        @Override
        public void run() {
            Ledger.bump();
        }
    };
    private static final Task STAMP = new Task() {
        @Override
        public void run() {
            Ledger.stamp();
        }
    };

    private final Map<String, String> arguments = new HashMap<>();
    private final int timers;
    private final int threads;
    private final boolean quick;
    private final Map<String, Double> figures = new HashMap<>();
    private Timers timer;
    private boolean isRehearsal;
    /** Each has a name of its own, by which it is pinned. */
    private int producersSoFar;
    /** What the phases have taken so far, with what looks at them. */
    private long performedNs;

    /** What one producer owns. */
    private static final class Own {
        final SplittableRandom random;
        final Object[] slots;
        final long[] delaysNs;
        int[] order;
        long[] nextDelaysNs;

        Own(long seed, int share) {
            random = new SplittableRandom(seed);
            slots = new Object[share];
            delaysNs = new long[share];
            for (int i = 0; i < share; i++) delaysNs[i] = delayNs(random);
        }

        static long delayNs(SplittableRandom random) {
            return random.nextLong(SECOND_NS, 60 * SECOND_NS + 1);
        }

        void choose(int steps) {
            order = new int[steps];
            nextDelaysNs = new long[steps];
            for (int i = 0; i < steps; i++) {
                order[i] = random.nextInt(slots.length);
                nextDelaysNs[i] = delayNs(random);
            }
        }
    }

    /** A phase of a producer. */
    private interface Phase {
        void run(Own own) throws Exception;
    }

    /** What looks at a phase's number and cost when all its operations have settled. */
    private interface Watch {
        void phase(int number, Cost cost) throws Exception;
    }

    private record Cost(long elapsedNs, long settlingNs, long cpuNs) {}

    /** When it was due is the task's own. */
    private static final class Late extends Task {
        final long dueNs;

        Late(long dueNs) {
            this.dueNs = dueNs;
        }

        @Override
        public void run() {
            Ledger.late(dueNs);
        }
    }

    /** Comes again a period later. */
    private static final class Again extends Task {
        final Timers timer;
        final long periodNs;
        long dueNs;

        Again(Timers timer, long dueNs, long periodNs) {
            this.timer = timer;
            this.dueNs = dueNs;
            this.periodNs = periodNs;
        }

        void begin() {
            if (Timers.PERIODIC) timer.every(this, delayNs(), periodNs);
            else timer.arm(this, delayNs());
        }

        private long delayNs() {
            return Math.max(0, dueNs - System.nanoTime());
        }

        @Override
        public void run() {
            Ledger.late(dueNs);
            dueNs += periodNs;
            if (!Timers.PERIODIC) timer.arm(this, delayNs());
        }
    }

    private Rival(String[] line) {
        for (int i = 1; i < line.length; i++) {
            if (line[i].equals("--quick")) arguments.put("--quick", "");
            else if (i + 1 < line.length) arguments.put(line[i], line[++i]);
        }
        timers = Integer.parseInt(text("--timers"));
        threads = Integer.parseInt(text("--threads"));
        quick = arguments.containsKey("--quick");
    }

    private String text(String name) {
        String text = arguments.get(name);
        if (text == null) throw new IllegalArgumentException(name + " is missing");
        return text;
    }

    public static void main(String[] line) {
        int status = 0;
        try {
            System.out.println(new Rival(line).measure());
        } catch (Exception error) {
            System.err.println(error.getMessage());
            status = 1;
        }
        // The wheel's thread, and the producers', end with the process.
        Runtime.getRuntime().halt(status);
    }

    private String measure() throws Exception {
        String workload = text("--workload");
        start();
        warmUp();
        if (!UNREHEARSED.contains(workload)) rehearse(workload);
        collect();
        perform(workload);
        StringBuilder json = new StringBuilder();
        figures.forEach((name, figure) -> json.append(json.isEmpty() ? "{" : ",").append(String.format(Locale.ROOT, "\"%s\":%.6f", name, figure)));
        return json.append("}").toString();
    }

    /**
     * The workload itself before it is measured, on other timers, with the same number of timers and threads. The compiler has seen the loops that are measured, not only the
     * calls in them, and the heap has been used. The figures are thrown away.
     */
    private void rehearse(String workload) throws Exception {
        int part = quick ? 10 : 1;
        long start = System.nanoTime();
        isRehearsal = true;
        do {
            perform(workload);
            renew();
        } while (performedNs < REHEARSED_NS / part && System.nanoTime() - start < REHEARSING_NS / part);
        isRehearsal = false;
        figures.clear();
    }

    private void perform(String workload) throws Exception {
        switch (workload) {
            case "w1" -> insert(true);
            case "w1-cold" -> insert(false);
            case "w2" -> window(0);
            case "w2b" -> window(WINDOW);
            case "w3" -> churn();
            case "w4" -> cancelAll();
            case "w5" -> fire(quick ? SECOND_NS / 2 : 2 * SECOND_NS);
            case "w5b" -> fire(0);
            case "w6" -> memory();
            case "w7" -> idle();
            case "w8" -> rearm();
            case "w9" -> paced(0);
            case "w9-periodic" -> periodic(SECOND_NS);
            case "w9-instant" -> periodic(0);
            case "w10" -> paced(50);
            case "w10-fast" -> paced(5);
            case "w10-slow" -> paced(500);
            case "w11" -> inFlight("same");
            case "w11-other" -> inFlight("other");
            case "w11-random" -> inFlight("random");
            default -> throw new IllegalArgumentException("no workload " + workload);
        }
    }

    private void start() {
        timer = new Timers();
    }

    /** Other timers, whose threads have begun. */
    private void renew() throws Exception {
        timer.stop();
        start();
        touch();
        settle();
    }

    /** The compiler has seen every call, on another wheel than the one that is measured. */
    private void warmUp() throws Exception {
        SplittableRandom random = new SplittableRandom(1);
        Object[] ring = new Object[50_000];
        for (int step = 0; step < 500_000; step++) {
            int place = random.nextInt(ring.length);
            if (ring[place] != null) Timers.cancel(ring[place]);
            ring[place] = arm(Own.delayNs(random));
            if (step % 100_000 == 0) settle();
        }
        // Those of the ring may be due by now.
        int each = 20_000;
        Ledger.begin();
        for (int i = 0; i < each; i++) {
            timer.arm(new Late(0), 1_000_000);
            timer.arm(STAMP, 1_000_000);
        }
        while (Ledger.fired() < 2 * each) Thread.sleep(1);
        settle();
        renew();
    }

    /** Once frees all that was stopped: the virtual machine runs no finalizers, for which a wheel with all its timers would wait. */
    private static void collect() {
        System.gc();
    }

    private Object arm(long delayNs) {
        return timer.arm(BUMP, delayNs);
    }

    private void touch() {
        Timers.cancel(arm(TIMEOUT_NS));
    }

    private void arm(Own own) {
        for (int i = 0; i < own.slots.length; i++) own.slots[i] = arm(own.delaysNs[i]);
    }

    private static void cancel(Own own) {
        for (int i = 0; i < own.slots.length; i++) {
            if (own.slots[i] != null) Timers.cancel(own.slots[i]);
            own.slots[i] = null;
        }
    }

    private static void shuffle(Own own) {
        for (int i = own.slots.length - 1; i > 0; i--) {
            int other = own.random.nextInt(i + 1);
            Object kept = own.slots[i];
            own.slots[i] = own.slots[other];
            own.slots[other] = kept;
        }
    }

    private void settle() throws InterruptedException {
        timer.settle();
    }

    private Own[] shares() {
        return owns(t -> (int) ((long) timers * (t + 1) / threads - (long) timers * t / threads));
    }

    private Own[] owns(IntUnaryOperator share) {
        Own[] owns = new Own[threads];
        long seed = Long.parseLong(text("--seed"));
        for (int t = 0; t < threads; t++) owns[t] = new Own(seed * 1009 + t, share.applyAsInt(t));
        return owns;
    }

    /** Takes one pinned thread for each of `owns` through the phases. */
    private void crew(Own[] owns, Watch watch, Phase... phases) throws Exception {
        CyclicBarrier gate = new CyclicBarrier(owns.length + 1);
        for (int t = 0; t < owns.length; t++) {
            int number = t;
            Thread producer = new Thread(() -> {
                try {
                    pin(number);
                    for (Phase phase : phases) {
                        gate.await();
                        phase.run(owns[number]);
                        gate.await();
                    }
                } catch (Exception error) {
                    System.err.println(error.getMessage());
                    Runtime.getRuntime().halt(1);
                }
            }, PRODUCER + producersSoFar++);
            producer.setDaemon(true);
            producer.start();
        }
        for (int number = 0; number < phases.length; number++) {
            // Producers that still start would count.
            if (number == 0) while (gate.getNumberWaiting() < owns.length) Thread.sleep(1);
            long start = System.nanoTime();
            long cpu = cpuNs();
            gate.await();
            gate.await();
            long done = System.nanoTime();
            if (timer != null) settle();
            long end = System.nanoTime();
            watch.phase(number, new Cost(end - start, end - done, cpuNs() - cpu));
            performedNs += System.nanoTime() - start;
        }
    }

    /** Java has no call for it: from the last core down, as the other subjects' producers. */
    private static void pin(int place) throws Exception {
        int cores = Runtime.getRuntime().availableProcessors();
        String thread = task(Thread.currentThread().getName()).getFileName().toString();
        String core = Integer.toString(cores - 1 - place % cores);
        Process taskset = new ProcessBuilder("taskset", "-cp", core, thread).redirectErrorStream(true).start();
        taskset.getInputStream().readAllBytes();
        if (taskset.waitFor() != 0) throw new IllegalStateException("taskset failed");
    }

    private static Path task(String name) throws Exception {
        try (var tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : tasks.toList()) {
                try {
                    if (Files.readString(task.resolve("comm")).trim().equals(name)) return task;
                } catch (java.io.IOException ended) {
                    // It is another one.
                }
            }
        }
        throw new IllegalStateException("no thread " + name);
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private void rates(long operations, Cost cost) {
        double seconds = cost.elapsedNs / 1e9;
        double millions = operations / 1e6;
        figures.put("mops", millions / seconds);
        figures.put("ns_per_op", seconds * 1e3 * threads / millions);
        figures.put("cpu_s_per_mop", cost.cpuNs / 1e9 / millions);
        figures.put("settle_ms", cost.settlingNs / 1e6);
    }

    private long operations() {
        return Math.max(100_000, Math.min(2L * timers, quick ? 200_000 : 2_000_000));
    }

    /** Producers take timers in blocks as they come along, as in throughput.rs. */
    private void insert(boolean warm) throws Exception {
                // Before what is measured, the collector has done its work. So it has before window's.
        Watch watch = (number, cost) -> {
            rates(timers, cost);
            collect();
        };
        Own[] owns = owns(thread -> timers);
        if (warm) crew(owns, watch, this::arm, Rival::cancel, armInBlocks());
        else crew(owns, watch, armInBlocks());
    }

    private Phase armInBlocks() {
        AtomicInteger next = new AtomicInteger();
        return own -> {
            int place = 0;
            for (long begin; (begin = (long) next.getAndIncrement() * BLOCK) < timers; ) {
                int end = place + (int) Math.min(BLOCK, timers - begin);
                for (; place < end; place++) own.slots[place] = arm(own.delaysNs[place]);
            }
        };
    }

    private void window(int window) throws Exception {
        int blocks = (int) ((operations() + BLOCK - 1) / BLOCK);
                AtomicInteger next = new AtomicInteger();
        collect();
        crew(shares(), (number, cost) -> rates((long) blocks * BLOCK, cost), own -> {
            Object[] ring = new Object[window];
            int place = 0;
            while (next.getAndIncrement() < blocks) {
                for (int i = 0; i < BLOCK; i++) {
                    Object armed = arm(TIMEOUT_NS);
                    if (window == 0) {
                        Timers.cancel(armed);
                        continue;
                    }
                    if (ring[place] != null) Timers.cancel(ring[place]);
                    ring[place] = armed;
                    place = place + 1 == window ? 0 : place + 1;
                }
            }
            for (Object armed : ring) if (armed != null) Timers.cancel(armed);
        });
    }

    /** Handles on their way from the thread that arms to the one that cancels: as in in_flight/ring.rs. */
    private static final class Ring {
        /** Places of the counts. The sender's, and the receiver's, are 256 bytes from each other and from all else: each has what it has seen of the other one beside its own. */
        private static final int PUSHED = 32;
        private static final int POPPED_SEEN = 33;
        private static final int POPPED = 66;
        private static final int PUSHED_SEEN = 67;

        final AtomicReferenceArray<Object> slots;
        final AtomicLongArray counts = new AtomicLongArray(100);
        volatile boolean closed;

        Ring(int window) {
            slots = new AtomicReferenceArray<>(window + SLACK);
        }

        boolean push(Object armed) {
            long number = counts.getPlain(PUSHED);
            if (number - counts.getPlain(POPPED_SEEN) == slots.length()) {
                long popped = counts.getAcquire(POPPED);
                counts.setPlain(POPPED_SEEN, popped);
                if (number - popped == slots.length()) return false;
            }
            slots.setPlain((int) (number % slots.length()), armed);
            counts.setRelease(PUSHED, number + 1);
            return true;
        }

        /** The oldest one, if there are more than `held`. */
        Object popBeyond(int held) {
            long number = counts.getPlain(POPPED);
            if (counts.getPlain(PUSHED_SEEN) - number <= held) {
                long pushed = counts.getAcquire(PUSHED);
                counts.setPlain(PUSHED_SEEN, pushed);
                if (pushed - number <= held) return null;
            }
            int place = (int) (number % slots.length());
            Object armed = slots.getPlain(place);
            slots.setPlain(place, null);
            counts.setRelease(POPPED, number + 1);
            return armed;
        }

        boolean isOver() {
            return closed && counts.getAcquire(PUSHED) == counts.getPlain(POPPED);
        }
    }

    /** A thread of W11, and what it has done while the windows were full. */
    private abstract static class Flier {
        long pairs;
        long ns;

        abstract void fly() throws Exception;
    }

    private volatile boolean landed;

    /** Arms, and cancels what was armed a window of inserts ago, or a random one. */
    private final class Both extends Flier {
        /** Slots behind the window, 256 bytes at least: without them short windows of two threads would share a cache line. */
        static final int ROOM = 64;
        final Object[] window = new Object[timers + ROOM];
        final boolean isRandom;
        final long seed;

        Both(boolean isRandom, long seed) {
            this.isRandom = isRandom;
            this.seed = seed;
        }

        @Override
        void fly() {
            int size = timers;
            for (int i = 0; i < size && !(i % FLIGHT_BLOCK == 0 && landed); i++) window[i] = arm(TIMEOUT_NS);
            long start = System.nanoTime();
            // What changes is in local variables: fields of two threads' objects may share a cache line.
            long random = seed;
            long pairs = 0;
            int place = 0;
            while (!landed) {
                for (int i = 0; i < FLIGHT_BLOCK; i++) {
                    if (isRandom) place = below(size, random += GOLDEN);
                    Object before = window[place];
                    window[place] = arm(TIMEOUT_NS);
                    if (before != null) Timers.cancel(before);
                    if (!isRandom) place = place + 1 == size ? 0 : place + 1;
                }
                pairs += FLIGHT_BLOCK;
            }
            ns = System.nanoTime() - start;
            this.pairs = pairs;
            for (int i = 0; i < size; i++) {
                if (window[i] != null) Timers.cancel(window[i]);
                window[i] = null;
            }
        }

        /** A number below `size`, as SplittableRandom makes one of a state that grows by GOLDEN. */
        private static int below(int size, long state) {
            state = (state ^ (state >>> 30)) * 0xbf58476d1ce4e5b9L;
            state = (state ^ (state >>> 27)) * 0x94d049bb133111ebL;
            return (int) ((state >>> 32) * size >>> 32);
        }
    }

    private final class Arms extends Flier {
        final Ring ring;

        Arms(Ring ring) {
            this.ring = ring;
        }

        @Override
        void fly() {
            while (!landed) {
                for (int i = 0; i < FLIGHT_BLOCK; i++) {
                    Object armed = arm(TIMEOUT_NS);
                    for (int looks = 1; !ring.push(armed); looks++) pause(looks);
                }
            }
            ring.closed = true;
        }
    }

    private final class Cancels extends Flier {
        final Ring ring;

        Cancels(Ring ring) {
            this.ring = ring;
        }

        @Override
        void fly() {
            long start = 0;
            long pairs = 0;
            for (int looks = 1; !landed; looks++) {
                Object armed = null;
                for (int i = 0; i < FLIGHT_BLOCK && (armed = ring.popBeyond(timers)) != null; i++) {
                    if (start == 0) start = System.nanoTime();
                    Timers.cancel(armed);
                    pairs++;
                    looks = 1;
                }
                if (armed == null) pause(looks);
            }
            if (start != 0) ns = System.nanoTime() - start;
            this.pairs = pairs;
            for (int looks = 1; !ring.isOver(); looks++) {
                Object armed = ring.popBeyond(0);
                if (armed == null) pause(looks);
                else Timers.cancel(armed);
            }
        }
    }

    private static void pause(int looks) {
        if (looks < SPINS) Thread.onSpinWait();
        else LockSupport.parkNanos(NAP_NS);
    }

    /** W11: a timeout of 5 ms each millisecond, until the flight has landed. Returns how many. */
    private int probe(int most) throws Exception {
        int armed = 0;
        while (!landed && armed < most) {
            timer.arm(new Late(System.nanoTime() + PROBE_NS), PROBE_NS);
            armed++;
            Thread.sleep(1);
        }
        return armed;
    }

    /** W11: arm at full speed, cancel a window of inserts later, with a probe beside it. */
    private void inFlight(String cancelledBy) throws Exception {
        long seed = Long.parseLong(text("--seed"));
        long timeNs = quick ? 300_000_000L : isRehearsal ? SECOND_NS : 3 * SECOND_NS;
        long begin = System.nanoTime();
        landed = false;
        Ledger.begin();
        List<Flier> fliers = new ArrayList<>();
        List<Integer> cores = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            cores.add(t);
            if (cancelledBy.equals("other")) {
                Ring ring = new Ring(timers);
                fliers.add(new Arms(ring));
                fliers.add(new Cancels(ring));
                cores.add(t + 1);
            } else {
                fliers.add(new Both(cancelledBy.equals("random"), seed * 4007 + t));
            }
        }
        long before = liveBytes();
        CyclicBarrier gate = new CyclicBarrier(fliers.size() + 1);
        for (int t = 0; t < fliers.size(); t++) {
            int number = t;
            Thread producer = new Thread(() -> {
                try {
                    pin(cores.get(number));
                    gate.await();
                    fliers.get(number).fly();
                    gate.await();
                } catch (Exception error) {
                    System.err.println(error.getMessage());
                    Runtime.getRuntime().halt(1);
                }
            }, PRODUCER + producersSoFar++);
            producer.setDaemon(true);
            producer.start();
        }
        int[] probes = {0};
        Thread probe = new Thread(() -> {
            try {
                probes[0] = probe((int) (timeNs / 1_000_000));
            } catch (Exception error) {
                System.err.println(error.getMessage());
                Runtime.getRuntime().halt(1);
            }
        }, "probe");
        probe.setDaemon(true);
        while (gate.getNumberWaiting() < fliers.size()) Thread.sleep(1);
        long cpu = cpuNs();
        gate.await();
        probe.start();
        Thread.sleep(timeNs / 1_000_000);
        landed = true;
        gate.await();
        long end = System.nanoTime();
        settle();
        long settlingNs = System.nanoTime() - end;
        long pairs = 0;
        double rate = 0;
        for (Flier flier : fliers) {
            pairs += flier.pairs;
            if (flier.ns > 0) rate += flier.pairs / 1e6 / ((flier.ns + settlingNs) / 1e9);
        }
        figures.put("mops", rate);
        figures.put("cpu_s_per_mop", (cpuNs() - cpu) / 1e9 / (Math.max(1, pairs) / 1e6));
        figures.put("settle_ms", settlingNs / 1e6);
        Thread.sleep(1_000);
        figures.put("left_bytes", (double) Math.max(0, liveBytes() - Ledger.bytes() - before));
        probe.join();
        for (int i = 0; i < 1_000 && Ledger.fired() < probes[0]; i++) Thread.sleep(10);
        // What the wheel's thread wrote is seen after this.
        settle();
        figures.put("lost", (double) Math.max(0, probes[0] - Ledger.fired()));
        lateness();
        performedNs += System.nanoTime() - begin;
    }

    private void churn() throws Exception {
        steps(false);
    }

    /** There is no such call: by cancel and arm. */
    private void rearm() throws Exception {
        steps(true);
    }

    private void steps(boolean toTimeout) throws Exception {
        Own[] owns = shares();
        int blocks = (int) ((operations() + BLOCK - 1) / BLOCK);
        int share = (blocks + threads - 1) / threads * BLOCK;
        for (Own own : owns) own.choose(share);
        AtomicInteger next = new AtomicInteger();
        crew(owns, (number, cost) -> rates((long) blocks * BLOCK, cost), this::arm, own -> {
            int step = 0;
            while (next.getAndIncrement() < blocks) {
                for (int i = 0; i < BLOCK; i++) {
                    int place = own.order[step];
                    Timers.cancel(own.slots[place]);
                    own.slots[place] = arm(toTimeout ? TIMEOUT_NS : own.nextDelaysNs[step]);
                    step = step + 1 == share ? 0 : step + 1;
                }
            }
        });
    }

    private void cancelAll() throws Exception {
        long[] bytes = new long[2];
        crew(shares(), (number, cost) -> {
            if (number < 2) bytes[number] = liveBytes();
            if (number < 3) return;
            rates(timers, cost);
            long start = System.nanoTime();
            long patienceNs = (quick ? 1 : 5) * SECOND_NS;
            long kept;
            do {
                kept = Math.max(0, liveBytes() - bytes[0]);
                if (kept * 100 <= (bytes[1] - bytes[0]) * KEPT_PERCENT) {
                    figures.put("back_ms", (System.nanoTime() - start) / 1e6);
                    break;
                }
                Thread.sleep(5);
            } while (System.nanoTime() - start < patienceNs);
            figures.put("kept_bytes", (double) kept / timers);
        }, own -> touch(), this::arm, Rival::shuffle, Rival::cancel);
    }

    private static long liveBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private void memory() throws Exception {
        timer.stop();
        timer = null;
        Own[] owns = shares();
        for (Own own : owns) for (int i = 0; i < own.delaysNs.length; i++) own.delaysNs[i] += FAR_NS / 10;
        collect();
        long nothing = liveBytes();
        start();
        long[] bytes = new long[2];
        crew(owns, (number, cost) -> bytes[number] = liveBytes(), own -> touch(), this::arm);
        figures.put("empty_bytes", (double) Math.max(0, bytes[0] - nothing));
        figures.put("bytes_per_timer", (double) (bytes[1] - bytes[0]) / timers);
    }

    private void idle() throws Exception {
        Own[] owns = shares();
        for (Own own : owns) Arrays.fill(own.delaysNs, FAR_NS);
        int seconds = quick ? 1 : 10;
        crew(owns, (number, cost) -> {
            Thread.sleep(quick ? 3_000 : 10_000);
            long wakeups = workerWakeups();
            long cpu = cpuNs();
            Thread.sleep(seconds * 1_000L);
            wakeups = workerWakeups() - wakeups;
            figures.put("wakeups", (double) wakeups);
            figures.put("wakeups_per_s", (double) wakeups / seconds);
            figures.put("cpu_s", (cpuNs() - cpu) / 1e9);
        }, this::arm);
    }

    /** Of the timers' threads: a virtual machine has others that wake up. */
    private static long workerWakeups() throws Exception {
        long sum = 0;
        try (var tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : tasks.toList()) {
                try {
                    if (!Timers.isWorker(Files.readString(task.resolve("comm")).trim())) continue;
                    for (String line : Files.readAllLines(task.resolve("status"))) {
                        if (line.startsWith("voluntary_ctxt_switches:")) sum += Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
                    }
                } catch (java.io.IOException ended) {
                    // It does not wake up any more.
                }
            }
        }
        return sum;
    }

    private void fire(long spreadNs) throws Exception {
        Own[] owns = shares();
        for (Own own : owns) for (int i = 0; i < own.delaysNs.length; i++) own.delaysNs[i] = own.random.nextLong(spreadNs + 1);
        Ledger.begin();
        long leadNs = (quick ? ARMING_NS / 2 : ARMING_NS) + timers * ARMING_NS_EACH;
        long[] firstNs = new long[1];
        crew(owns, (number, cost) -> {
            long cpu = cpuNs();
            if (System.nanoTime() >= firstNs[0]) throw new IllegalStateException(timers + " timers were not armed in " + leadNs / 1_000_000 + " ms");
            long lastDueNs = firstNs[0] + spreadNs;
            Thread.sleep(Math.max(0, (lastDueNs - System.nanoTime()) / 1_000_000));
            while (Ledger.fired() < timers) {
                if (System.nanoTime() > lastDueNs + PATIENCE_NS) throw new IllegalStateException(Ledger.fired() + " of " + timers + " timers have fired");
                Thread.sleep(1);
            }
            // The worker's last writes.
            settle();
            double cpuSeconds = (cpuNs() - cpu) / 1e9;
            figures.put("cpu_s", cpuSeconds);
            if (spreadNs == 0) {
                long[] stamps = Ledger.noted();
                double firstMs = (stamps[0] - firstNs[0]) / 1e6;
                double lastMs = (stamps[stamps.length - 1] - firstNs[0]) / 1e6;
                figures.put("first_ms", firstMs);
                figures.put("last_ms", lastMs);
                figures.put("mops", timers / 1e3 / lastMs);
                return;
            }
            lateness();
        }, own -> {
            synchronized (firstNs) {
                if (firstNs[0] == 0) firstNs[0] = System.nanoTime() + leadNs;
            }
            for (int i = 0; i < own.slots.length; i++) {
                long dueNs = firstNs[0] + own.delaysNs[i];
                own.slots[i] = timer.arm(spreadNs == 0 ? STAMP : new Late(dueNs), Math.max(0, dueNs - System.nanoTime()));
            }
        });
    }

    /** What a producer's step does, and what it has done. */
    private final class Load {
        final SplittableRandom random;
        final int perS;
        final int producers;
        final int number;
        final List<List<Object>> requests = new ArrayList<>();
        /** Whether one request in a hundred is not answered. */
        boolean some;
        int steps;
        long armed;
        long armedDue;

        Load(int perS, int producers, int number, int answerSteps) {
            this.perS = perS;
            this.producers = producers;
            this.number = number;
            random = new SplittableRandom(Long.parseLong(text("--seed")) * 7919 + number);
            for (int i = 0; i < answerSteps; i++) requests.add(new ArrayList<>());
        }

        private long until(int step) {
            return ((long) perS * step + (long) number * STEPS_PER_S) / ((long) STEPS_PER_S * producers);
        }

        /** Without a wheel it arms nothing: what the loop takes by itself. */
        void step(Timers timer) {
            int step = steps++;
            List<Object> place = requests.isEmpty() ? null : requests.get(step % requests.size());
            if (place != null) {
                for (Object request : place) if (request != null) Timers.cancel(request);
                place.clear();
            }
            long timers = until(step + 1) - until(step);
            for (long i = 0; i < timers; i++) {
                if (place != null && !(some && random.nextInt(UNANSWERED) == 0)) {
                    place.add(timer == null ? null : timer.arm(BUMP, TIMEOUT_NS));
                    continue;
                }
                long delayNs = LEAD_NS + random.nextLong(SPREAD_NS);
                long dueNs = System.nanoTime() + delayNs;
                if (timer != null) timer.arm(new Late(dueNs), delayNs);
                armedDue++;
            }
            armed += timers;
        }
    }

    /** A loop's steps, and what they took: of the other threads, and of the producers' steps. */
    private final class Steps {
        final int before;
        final int measured;
        final CyclicBarrier gate = new CyclicBarrier(threads);
        final AtomicLong inStepsNs = new AtomicLong();
        final AtomicLong timers = new AtomicLong();
        double seconds;
        double othersSeconds;
        double wakeups;

        Steps(int before, int measured) {
            this.before = before;
            this.measured = measured;
        }

        void take(Load load) throws Exception {
            long start = System.nanoTime();
            run(load, start, 0, before);
            gate.await();
            boolean isFirst = load.number == 0;
            long at = System.nanoTime();
            long wakeupsBefore = isFirst && timer != null ? workerWakeups() : 0;
            long othersBefore = isFirst ? othersCpuNs() : 0;
            gate.await();
            long armed = load.armed;
            inStepsNs.addAndGet(run(load, start, before, before + measured));
            timers.addAndGet(load.armed - armed);
            gate.await();
            if (isFirst) {
                othersSeconds = (othersCpuNs() - othersBefore) / 1e9;
                seconds = (System.nanoTime() - at) / 1e9;
                wakeups = timer != null ? workerWakeups() - wakeupsBefore : 0;
            }
            gate.await();
        }

        private long run(Load load, long start, int from, int until) {
            var clock = ManagementFactory.getThreadMXBean();
            long inSteps = 0;
            for (int step = from; step < until; step++) {
                long before = clock.getCurrentThreadCpuTime();
                load.step(timer);
                inSteps += clock.getCurrentThreadCpuTime() - before;
                long endNs = start + STEP_NS * (step + 1);
                for (long left; (left = endNs - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
            }
            return inSteps;
        }

        double cpuPerSecond() {
            return (othersSeconds + inStepsNs.get() / 1e9) / seconds;
        }
    }

    /**
     * Of all threads but the producers and the compiler's, which rest in a program that has run for
     * long. The call for the whole process counts in steps of 10 ms.
     */
    private static long othersCpuNs() throws Exception {
        long sum = 0;
        try (var tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : tasks.toList()) {
                try {
                    String name = Files.readString(task.resolve("comm"));
                    if (name.startsWith(PRODUCER) || name.startsWith("C1 ") || name.startsWith("C2 ")) continue;
                    sum += Long.parseLong(Files.readString(task.resolve("schedstat")).split(" ")[0]);
                } catch (java.io.IOException ended) {
                    // It has not run lately.
                }
            }
        }
        return sum;
    }

    /** W9, and W10 with its two loads: all requests are answered, then all but one in a hundred. */
    private void paced(int answerSteps) throws Exception {
        Ledger.begin();
        Load rehearsal = new Load(STEPS_PER_S * REHEARSED, 1, 0, answerSteps);
        rehearsal.some = true;
        for (int step = 0; step < REHEARSAL; step++) rehearsal.step(step % 2 == 0 ? timer : null);
        // The loop alone has no wheel.
        timer.stop();
        timer = null;
        List<Steps> alone = new ArrayList<>();
        List<Steps> with = new ArrayList<>();
        if (answerSteps == 0) {
            with.add(quick ? new Steps(200, 200) : new Steps(1_000, 3_000));
        } else {
            with.add(quick ? new Steps(answerSteps + 50, 200) : new Steps(answerSteps + 1_000, 2_000));
            with.add(quick ? new Steps(100, 200) : new Steps(600, 1_500));
        }
        // The compiler may still be at it: the loop alone has a second before it.
        for (Steps steps : with) alone.add(new Steps(quick ? answerSteps + 50 : steps.before, quick ? 100 : 600));
        Ledger.begin();
        Own[] owns = new Own[threads];
        Map<Own, Load> loads = new HashMap<>();
        Map<Own, Load> aloneLoads = new HashMap<>();
        for (int t = 0; t < threads; t++) {
            owns[t] = new Own(1, 0);
            loads.put(owns[t], new Load(timers, threads, t, answerSteps));
            aloneLoads.put(owns[t], new Load(timers, threads, t, answerSteps));
        }
        crew(owns, (number, cost) -> {
            if (number > 0) return;
            System.gc();
            start();
            touch();
            settle();
        }, own -> take(alone, aloneLoads.get(own)), own -> {
            take(with, loads.get(own));
            Thread.sleep((LEAD_NS + SPREAD_NS) / 1_000_000);
        });
        long armedDue = 0;
        for (Load load : loads.values()) armedDue += load.armedDue;
        for (int i = 0; i < 100 && Ledger.fired() < armedDue; i++) Thread.sleep(20);
        settle();
        for (int i = with.size() - 1; i >= 0; i--) {
            Steps steps = with.get(i);
            double cpu = steps.cpuPerSecond() - alone.get(i).cpuPerSecond();
            rates(answerSteps == 0 ? "cpu_us_per_fire" : "cpu_us_per_request", cpu, steps.seconds, steps.timers.get(), steps.wakeups);
            if (i == 0) break;
            figures.put("fires_cpu_percent", figures.get("cpu_percent"));
            figures.put("fires_wakeups_per_s", figures.get("wakeups_per_s"));
        }
        figures.put("lost", (double) Math.max(0, armedDue - Ledger.fired()));
        lateness();
    }

    private static void take(List<Steps> all, Load load) throws Exception {
        for (Steps steps : all) {
            load.some = steps != all.get(0);
            steps.take(load);
        }
    }

    private void rates(String perTimer, double cpuPerSecond, double seconds, long timers, double wakeups) {
        figures.put(perTimer, cpuPerSecond * 1e6 * seconds / Math.max(1, timers));
        figures.put("cpu_percent", cpuPerSecond * 100);
        figures.put("wakeups_per_s", wakeups / seconds);
        figures.put("timers_per_s", timers / seconds);
    }

    private void lateness() {
        long[] late = Ledger.noted();
        int early = 0;
        while (early < late.length && late[early] < 0) early++;
        double[] parts = {0.5, 0.99, 0.999, 1};
        String[] names = {"p50", "p99", "p999", "max"};
        for (int i = 0; i < parts.length; i++) {
            int place = Math.min((int) (late.length * parts[i]), late.length - 1);
            figures.put("late_ms_" + names[i], late.length == 0 ? 0 : Math.max(0, late[place]) / 1e6);
        }
        figures.put("early", (double) early);
    }

    /** Starts timers that come again each period, at random instants of `spreadNs`, or all at one. */
    private void again(int number, long firstNs, long spreadNs, long periodNs) {
        SplittableRandom random = new SplittableRandom(Long.parseLong(text("--seed")));
        for (int i = 0; i < number; i++) {
            long dueNs = firstNs + (spreadNs == 0 ? 0 : random.nextLong(spreadNs));
            new Again(timer, dueNs, periodNs).begin();
        }
    }

    /** Where all are due at one instant it is measured from the middle of a period on, so that a burst is inside or outside. */
    private void periodic(long spreadNs) throws Exception {
        Ledger.begin();
        again(2_000, System.nanoTime(), 10_000_000, 10_000_000);
        Thread.sleep(1_000);
        renew();
        Ledger.begin();
        long leadNs = ARMING_PERIODIC_NS + timers * ARMING_PERIODIC_NS_EACH;
        long settled = (leadNs + Math.max(spreadNs, SECOND_NS / 2)) / 1_000_000 / (quick ? 4 : 1);
        int time = quick ? 500 : 3_000;
        crew(new Own[] {new Own(1, 0)}, (number, cost) -> {
            Thread.sleep(settled);
            long at = System.nanoTime();
            long fired = Ledger.fired();
            long wakeups = workerWakeups();
            long cpu = othersCpuNs();
            Thread.sleep(time);
            double cpuSeconds = (othersCpuNs() - cpu) / 1e9;
            double seconds = (System.nanoTime() - at) / 1e9;
            rates("cpu_us_per_fire", cpuSeconds / seconds, seconds, Ledger.fired() - fired, workerWakeups() - wakeups);
        }, own -> again(timers, System.nanoTime() + leadNs, spreadNs, SECOND_NS));
        timer.stop();
        lateness();
    }
}
