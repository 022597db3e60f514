// Killing jobs that run beyond their limit.

/** @typedef {import('../src/index.mjs').Dispatcher} Dispatcher */
/** @typedef {import('../src/index.mjs').View} View */

/**
 * Before another decides, kills running jobs whose walltime has passed, in order of job.
 * @implements {Dispatcher}
 */
export class KillOverdue {
  #inner

  /** @param {Dispatcher} inner */
  constructor(inner) {
    this.#inner = inner
    this.name = inner.name
    this.actionable = false
  }

  /** @param {View} view */
  begin(view) {
    this.#inner.begin?.(view)
  }

  /** @param {View} view */
  decide(view) {
    const overdue = [...view.running.values()].filter(
      (running) => running.estimatedEndUs <= view.nowUs
    )
    overdue.sort((a, b) => a.job.number - b.job.number)
    for (const running of overdue) view.kill(running)
    return this.#inner.decide(view)
  }
}
