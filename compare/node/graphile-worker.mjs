// graphile-worker, as its page on performance has it: 24 jobs at once, a pool of 25 connections, a
// local queue of 500, jobs completed in batches. It polls each 2 s, its default.
import { Logger, makeWorkerUtils, run, WorkerPreset } from "graphile-worker";
import pg from "pg";
import { serve } from "./node.mjs";

const TASK = "timer";
const logger = new Logger(() => () => {});
let preset, pool, utils, runner;

const spec = (timer) => ({ runAt: new Date(timer.due) });

await serve({
  // One call, and 25 connections that it may use.
  batch: 5_000,
  batches: 4,
  async open({ url, poll_ms }) {
    pool = new pg.Pool({ connectionString: url, max: 25 });
    // It warns of pools that have no handler.
    pool.on("error", (error) => console.error(`graphile-worker: ${error.message}`));
    pool.on("connect", (client) => client.on("error", () => {}));
    preset = {
      extends: [WorkerPreset],
      worker: {
        connectionString: url,
        concurrentJobs: 24,
        maxPoolSize: 25,
        pollInterval: poll_ms || 2_000,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    };
    const quiet = { extends: [WorkerPreset], worker: { logger } };
    utils = await makeWorkerUtils({ pgPool: pool, preset: quiet });
    await utils.migrate();
  },
  armMany: (timers) =>
    utils.addJobs(timers.map((timer) => ({ identifier: TASK, payload: timer, ...spec(timer) }))),
  armOne: (timer) => utils.addJob(TASK, timer, spec(timer)),
  async work(fire) {
    const taskList = { [TASK]: (timer) => fire(timer) };
    runner = await run({ preset, noHandleSignals: true, taskList });
    // It says why it has ended.
    runner.promise.catch((error) => console.error(`graphile-worker: ${error.message}`));
  },
  async left() {
    const left = "select exists (select from graphile_worker._private_jobs) as left";
    const { rows } = await pool.query(left);
    return rows[0].left;
  },
  async close() {
    await runner?.stop();
    await utils.release();
  },
});
