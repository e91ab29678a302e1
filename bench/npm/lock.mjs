// Acquire and release of a key of one's own, by redlock on one ioredis connection.
import { Redis } from 'ioredis';
import Redlock from 'redlock';
import { quantile } from './quantile.mjs';

let redlock;

export async function lock({ url, tasks, ms, ttl_ms }) {
  // Its defaults, which its documentation shows; ioredis has TCP_NODELAY on by default.
  redlock ??= new Redlock([new Redis(url)]);
  const latencies = [];
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + ms;
  const one = async (index) => {
    const key = `bench-redlock:own-${index}`;
    while (performance.now() < end) {
      const from = performance.now();
      const held = await redlock.acquire([key], ttl_ms);
      await held.release();
      latencies.push((performance.now() - from) * 1000);
    }
  };
  await Promise.all(Array.from({ length: tasks }, (_, index) => one(index)));
  const elapsed_ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return {
    ops: latencies.length,
    elapsed_ms,
    p50_us: quantile(latencies, 0.5),
    cpu_us: user + system,
  };
}
