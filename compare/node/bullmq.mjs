// BullMQ: one worker of 100 jobs at once, which are removed when they are done. Locks of 30 s and a
// look for stalled jobs each 30 s, its defaults. It waits for what is due, and polls for nothing.
import { Queue, Worker } from "bullmq";
import { serve } from "./node.mjs";

const QUEUE = "timers";
let queue, worker, connection;

const options = (timer) => {
  const timestamp = Date.now();
  return { timestamp, delay: Math.max(0, timer.due - timestamp), removeOnComplete: true };
};

await serve({
  batch: 1_000,
  batches: 4,
  async open({ url }) {
    const { hostname, port } = new URL(url);
    connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
    queue = new Queue(QUEUE, { connection });
    await queue.waitUntilReady();
  },
  armMany: (timers) =>
    queue.addBulk(timers.map((timer) => ({ name: "timer", data: timer, opts: options(timer) }))),
  armOne: (timer) => queue.add("timer", timer, options(timer)),
  async work(fire) {
    worker = new Worker(QUEUE, async (job) => fire(job.data), { connection, concurrency: 100 });
    worker.on("error", (error) => console.error(`bullmq: ${error.message}`));
    await worker.waitUntilReady();
  },
  async left() {
    const counts = await queue.getJobCounts("delayed", "wait", "active", "prioritized");
    return Object.values(counts).some((count) => count > 0);
  },
  async close() {
    await worker?.close(true);
    await queue.close();
  },
});
