// The pending jobs.

/** @typedef {import('./job.mjs').Job} Job */

/**
 * The pending jobs that are not held, by submission, then number.
 *
 * Looking at the head, adding at the end and removing are O(1). Jobs may be started or rejected
 * while one iterates.
 */
export class JobQueue {
  /** @type {Map<number, Job>} */
  #jobs = new Map()
  /** @type {Job | null} */
  #tail = null

  constructor() {
    /**
     * The job that waits longest, or null.
     * @type {Job | null}
     */
    this.head = null
  }

  /** @param {number} number */
  get(number) {
    return this.#jobs.get(number)
  }

  get size() {
    return this.#jobs.size
  }

  /** @param {Job} job */
  has(job) {
    return this.#jobs.get(job.number) === job
  }

  *[Symbol.iterator]() {
    let job = this.head
    while (job !== null) {
      // Those that left meanwhile still know who came behind them.
      if (job.queued) yield job
      job = job.next
    }
  }

  /**
   * Adds a job in its place; one that was submitted last costs O(1).
   * @param {Job} job
   */
  add(job) {
    let before = this.#tail
    while (before !== null && job.before(before)) before = before.previous
    job.previous = before
    job.next = before === null ? this.head : before.next
    if (before === null) this.head = job
    else before.next = job
    if (job.next === null) this.#tail = job
    else job.next.previous = job
    job.queued = true
    this.#jobs.set(job.number, job)
  }

  /** @param {Job} job */
  remove(job) {
    this.#jobs.delete(job.number)
    if (job.previous === null) this.head = job.next
    else job.previous.next = job.next
    if (job.next === null) this.#tail = job.previous
    else job.next.previous = job.previous
    job.queued = false
  }
}
