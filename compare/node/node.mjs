// The end of a process that keeps timers by one job queue: reads commands, and answers each.
//
// A subject gives: open, armMany, armOne, work, left, close; and how many timers go into a batch,
// and how many batches are under way (`batch`, `batches`). The protocol is that of
// compare/fleets/src/serve.rs, where the subjects in Rust have theirs.
import { createInterface } from "node:readline";
import { performance } from "node:perf_hooks";

// Lateness is told in these.
const LATE_UNIT_MS = 0.01;

const now = () => performance.timeOrigin + performance.now();

// What has fired: how many, how late, which of them again.
const ledger = {
  seen: new Uint8Array(1 << 16),
  fired: 0,
  again: 0,
  early: 0,
  first: 0,
  last: 0,
  late: new Map(),
};

function fired(timer) {
  const at = now();
  if (timer.n >= ledger.seen.length) {
    const seen = new Uint8Array(2 ** Math.ceil(Math.log2(timer.n + 1)));
    seen.set(ledger.seen);
    ledger.seen = seen;
  }
  if (ledger.seen[timer.n]) {
    ledger.again += 1;
    return;
  }
  ledger.seen[timer.n] = 1;
  ledger.fired += 1;
  ledger.first ||= at;
  ledger.last = at;
  if (Date.now() < timer.due) ledger.early += 1;
  const late = Math.max(0, Math.round((at - timer.due) / LATE_UNIT_MS));
  ledger.late.set(late, (ledger.late.get(late) ?? 0) + 1);
}

// A seeded generator of numbers from 0 to 1 (mulberry32).
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";

// Timers with numbers in order, due at random milliseconds, with a body of 64 letters.
function timers({ seed, first, from_ms, spread_ms }) {
  const random = generator(seed);
  let n = first;
  return () => {
    let body = "";
    for (let i = 0; i < 64; i += 1) body += LETTERS[Math.floor(random() * LETTERS.length)];
    return { n: n++, due: from_ms + Math.floor(random() * spread_ms), body };
  };
}

function quantile(sorted, part) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

// Callers that arm, each one batch after the other, until a number is armed or a time is over.
async function arm(subject, command) {
  const next = timers(command);
  const single = command.callers > 0;
  const callers = single ? command.callers : subject.batches;
  const batch = single ? 1 : subject.batch;
  const start = now();
  const end = command.ms > 0 ? start + command.ms : Infinity;
  let left = command.count > 0 ? command.count : Infinity;
  let armed = 0;
  const calls = [];
  const caller = async () => {
    while (left > 0 && now() < end) {
      const count = Math.min(batch, left);
      left -= count;
      const some = Array.from({ length: count }, next);
      const begun = now();
      if (single) await subject.armOne(some[0]);
      else await subject.armMany(some);
      armed += count;
      calls.push((now() - begun) * 1000);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const ms = now() - start;
  calls.sort((one, other) => one - other);
  return {
    armed,
    ms,
    call_us_p50: quantile(calls, 0.5),
    call_us_p99: quantile(calls, 0.99),
    call_us_max: quantile(calls, 1),
  };
}

// Serves a subject until its input ends.
export async function serve(subject) {
  // With `hang` no handler ever ends: what a worker that is killed had taken.
  let hang = false;
  const fire = (timer) => {
    fired(timer);
    return hang ? new Promise(() => {}) : undefined;
  };
  const commands = {
    async open(command) {
      hang = command.hang;
      await subject.open(command);
      return {};
    },
    async work() {
      await subject.work(fire);
      return {};
    },
    arm: (command) => arm(subject, command),
    fired: async () => ({ fired: ledger.fired }),
    left: async () => ({ left: await subject.left() }),
    late: async () => ({
      late: [...ledger.late],
      early: ledger.early,
      again: ledger.again,
      first_ms: ledger.first,
      last_ms: ledger.last,
    }),
    async close() {
      await subject.close();
      return {};
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    let answer;
    try {
      answer = await commands[command.do](command);
    } catch (error) {
      answer = { error: `${error?.message ?? error}`.split("\n")[0] };
    }
    await new Promise((done) => process.stdout.write(`${JSON.stringify(answer)}\n`, done));
    if (command.do === "close") break;
  }
  process.exit(0);
}
