// pg-boss: fetches of 1,000 jobs, at once again while they come back full (`burstWhenBatchFull`),
// else each 0.5 s, the shortest that it takes. A heartbeat of 10 s, the shortest, has jobs of a
// worker that was killed found by the supervisor, which looks each 60 s, its default.
import { PgBoss } from "pg-boss";
import pg from "pg";
import { serve } from "./node.mjs";

const QUEUE = "timers";
const LEAST_POLL_S = 0.5;
let boss, pool, interval;

const options = (timer) => ({ startAfter: new Date(timer.due) });

await serve({
  batch: 5_000,
  batches: 4,
  async open({ url, poll_ms }) {
    interval = Math.max(LEAST_POLL_S, (poll_ms || 500) / 1_000);
    pool = new pg.Pool({ connectionString: url, max: 2 });
    boss = new PgBoss({ connectionString: url, max: 25, schedule: false });
    boss.on("error", (error) => console.error(`pg-boss: ${error.message}`));
    await boss.start();
    await boss.createQueue(QUEUE, { heartbeatSeconds: 10 });
  },
  armMany: (timers) =>
    boss.insert(QUEUE, timers.map((timer) => ({ data: timer, ...options(timer) }))),
  armOne: (timer) => boss.send(QUEUE, timer, options(timer)),
  async work(fire) {
    const worker = { batchSize: 1_000, pollingIntervalSeconds: interval, burstWhenBatchFull: true };
    await boss.work(QUEUE, worker, async (jobs) => {
      await Promise.all(jobs.map((job) => fire(job.data)));
    });
  },
  async left() {
    const left = "select exists (select from pgboss.job where state < 'completed') as left";
    const { rows } = await pool.query(left);
    return rows[0].left;
  },
  async close() {
    await boss.stop({ graceful: false });
    await pool.end();
  },
});
