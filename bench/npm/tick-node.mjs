// One node of the tick: told by its parent when to tick, when to consume and when to stop.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const { url, prefix, records, concurrency, window_ms } = JSON.parse(process.argv[2]);
// As the documentation wants it of a worker's connection.
const connection = new Redis(url, { maxRetriesPerRequest: null });
const queue = new Queue('records', { connection, prefix });

const scan = async ({ data: { org } }) => {
  const jobs = Array.from({ length: records }, (_, record) => ({
    name: 'record',
    data: { org, record },
    opts: {
      deduplication: { id: `${org}-${record}`, ttl: window_ms },
      removeOnComplete: true,
    },
  }));
  await queue.addBulk(jobs);
};
const options = { connection, prefix, concurrency, autorun: false };
const ticks = new Worker('ticks', scan, options);

let handled = 0;
const consumer = new Worker('records', async () => {}, options);
consumer.on('completed', () => (handled += 1));
const report = setInterval(() => {
  if (handled > 0) process.send(handled);
  handled = 0;
}, 2);

process.on('message', async (message) => {
  if (message === 'tick') ticks.run();
  if (message === 'consume') consumer.run();
  if (message === 'stop') {
    clearInterval(report);
    await Promise.all([ticks.close(true), consumer.close(true)]);
    process.exit(0);
  }
});
await Promise.all([ticks.waitUntilReady(), consumer.waitUntilReady(), queue.waitUntilReady()]);
process.send(0);
