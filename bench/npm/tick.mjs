// One tick a tenant that enqueues its records, and consumers of these, by BullMQ on node processes.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

const NODE = new URL('./tick-node.mjs', import.meta.url);

export async function tick({ url, prefix, nodes, orgs, records, concurrency, window_ms }) {
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const ticks = new Queue('ticks', { connection, prefix });
  const queue = new Queue('records', { connection, prefix });
  const children = Array.from({ length: nodes }, () =>
    fork(NODE, [JSON.stringify({ url, prefix, records, concurrency, window_ms })]),
  );
  try {
    await Promise.all(children.map((child) => once(child, 'message')));
    // A scheduler's first job is due at once; the next ones long after the benchmark.
    for (let org = 0; org < orgs; org += 1) {
      await ticks.upsertJobScheduler(`tick-${org}`, { every: 86_400_000 }, {
        name: 'tick',
        data: { org },
        opts: { removeOnComplete: true },
      });
    }
    const all = orgs * records;
    const tell = (message) => children.forEach((child) => child.send(message));
    const until = async (done) => {
      while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 2));
    };

    const before = await calls(connection);
    const started = performance.now();
    tell('tick');
    await until(async () => (await connection.llen(queue.toKey('wait'))) >= all);
    const enqueue_ms = performance.now() - started;
    const after = await calls(connection);

    let handled = 0;
    for (const child of children) child.on('message', (count) => (handled += count));
    const draining = performance.now();
    tell('consume');
    await until(() => handled >= all);
    return { enqueue_ms, drain_ms: performance.now() - draining, calls: after - before };
  } finally {
    children.forEach((child) => child.send('stop'));
    await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')));
    await ticks.obliterate({ force: true });
    await queue.obliterate({ force: true });
    await connection.quit();
  }
}

// Calls of scripts that the server has seen: BullMQ does all in scripts.
async function calls(connection) {
  const info = await connection.info('commandstats');
  const of = (name) => Number(info.match(new RegExp(`cmdstat_${name}:calls=(\\d+)`))?.[1] ?? 0);
  return of('evalsha') + of('eval');
}
