// Runs what it is told on standard input, a JSON object a line, and answers with one a line.
import { createInterface } from 'node:readline';
import { cache } from './cache.mjs';
import { handover } from './handover.mjs';
import { limit } from './limit.mjs';
import { lock } from './lock.mjs';
import { tick } from './tick.mjs';

const benchmarks = { cache, handover, limit, lock, tick };

for await (const line of createInterface({ input: process.stdin })) {
  const { run, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = await benchmarks[run](options);
  } catch (error) {
    answer = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
