// Waiters that pass one lock on, by redis-semaphore, each on a connection of its own.
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { quantile } from './quantile.mjs';

let clients;

export async function handover({ url, waiters, ms, ttl_ms }) {
  clients ??= Array.from({ length: waiters }, () => new Redis(url));
  await Promise.all(clients.map((client) => client.ping()));
  const grants = new Array(waiters).fill(0);
  const handovers = [];
  let released;
  const end = performance.now() + ms;
  const one = async (client, index) => {
    // A retry every 10 ms, as is its default.
    const mutex = new Mutex(client, 'bench-handover', { lockTimeout: ttl_ms });
    while (performance.now() < end) {
      await mutex.acquire();
      const now = performance.now();
      if (now < end) {
        grants[index] += 1;
        if (released && released.by !== index) handovers.push((now - released.at) * 1000);
      }
      released = { at: performance.now(), by: index };
      await mutex.release();
    }
  };
  await Promise.all(clients.map(one));
  return {
    grants,
    handovers: handovers.length,
    p50_us: quantile(handovers, 0.5),
    p99_us: quantile(handovers, 0.99),
  };
}
