// Permits of a limit, by rate-limiter-flexible on one ioredis connection.
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { quantile } from './quantile.mjs';

let limiter;

export async function limit({ url, tasks, ms, keys, quota, window_s }) {
  limiter ??= new RateLimiterRedis({
    storeClient: new Redis(url),
    keyPrefix: 'bench-flexible',
    points: quota,
    duration: window_s,
  });
  const latencies = [];
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + ms;
  const one = async (index) => {
    for (let turn = index; performance.now() < end; turn += tasks) {
      const from = performance.now();
      await limiter.consume(`subject-${turn % keys}`);
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
