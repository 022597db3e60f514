#!/usr/bin/env node
// First come, first served: jobs start in the order of their submission, each on the
// lowest-numbered nodes that hold it; the first that does not fit holds up all behind it.

import { run } from './program.mjs'

/** @type {import('../src/index.mjs').Dispatcher} */
const fifo = {
  name: 'fifo',
  actionable: true,
  decide(view) {
    for (const job of view.queue) {
      if (!view.start(job)) break
    }
  }
}

run('parley-fifo', () => fifo)
