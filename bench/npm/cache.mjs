// Hits by cacheable: in the process, and in Redis through its secondary store.
import { createKeyv } from '@keyv/redis';
import { Cacheable, Keyv } from 'cacheable';
import { quantile } from './quantile.mjs';

const caches = new Map();

export async function cache({ url, tasks, ms, from, value }) {
  if (!caches.has(from)) {
    // As its documentation shows: a memory store, and a store of Redis behind it.
    const redis = createKeyv(url, { namespace: 'bench-cacheable' });
    const made = from === 'near' ? new Cacheable({ secondary: redis }) : new Cacheable({ primary: redis });
    await made.set('one', value, 600_000);
    caches.set(from, made);
  }
  const made = caches.get(from);
  const latencies = [];
  let ops = 0;
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + ms;
  const one = async () => {
    while (performance.now() < end) {
      const began = performance.now();
      // So many in the process that looking at the clock costs nothing.
      const times = from === 'near' ? 1000 : 1;
      for (let n = 0; n < times; n++) {
        if ((await made.get('one')) !== value) throw new Error('cacheable: it is not there');
      }
      latencies.push(((performance.now() - began) * 1000) / times);
      ops += times;
    }
  };
  await Promise.all(Array.from({ length: tasks }, one));
  const elapsed_ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { ops, elapsed_ms, p50_us: quantile(latencies, 0.5), cpu_us: user + system };
}
