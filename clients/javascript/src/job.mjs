// Jobs as a dispatcher knows them: everything but how long they will run.

/** @typedef {import('./messages.mjs').JobDescription} JobDescription */
/** @typedef {import('./messages.mjs').Span} Span */

export const SECOND_US = 1_000_000

/** When a job without limit ends: an instant later than any of a simulation, us. */
export const NEVER = 2 ** 61

/** How long a job without limit lasts: beyond `NEVER`, whenever it starts, us. */
export const FOREVER = 2 ** 62

/**
 * What one chunk asks of its node; there is one object of each shape.
 * @typedef {object} Shape
 * @property {[resource: string, amount: number][]} perChunk what it takes any of, by name
 * @property {boolean} exclusive it takes a wholly empty node, all of it
 */

/** A job that was submitted. */
export class Job {
  /**
   * @param {JobDescription} description
   * @param {Shape} shape
   */
  constructor(description, shape) {
    this.number = description.job
    this.name = description.name
    this.submitUs = description.submit_us
    /** The limit it asks for; null is without limit. */
    this.walltimeUs = description.walltime_us ?? null
    this.chunks = description.request[0].chunks
    this.shape = shape
    this.description = description
    /** How long it is to have its nodes: an estimate of zero counts as one second. */
    this.plannedLengthUs = this.walltimeUs === null ? FOREVER : this.walltimeUs || SECOND_US
    /** @type {Job | null} */
    this.previous = null
    /** @type {Job | null} */
    this.next = null
    this.queued = false
  }

  /** @param {Job} other */
  before(other) {
    return this.submitUs === other.submitUs
      ? this.number < other.number
      : this.submitUs < other.submitUs
  }

  toString() {
    return `job ${this.number} (${this.name})`
  }
}

/** A job on its nodes. */
export class RunningJob {
  /**
   * @param {Job} job
   * @param {number} startUs
   * @param {Span[]} spans
   */
  constructor(job, startUs, spans) {
    this.job = job
    this.startUs = startUs
    this.spans = spans
    /** When its walltime is over, be it past; `NEVER` without limit. */
    this.estimatedEndUs = job.walltimeUs === null ? NEVER : startUs + job.walltimeUs
  }

  /**
   * When it is taken to end, always after now: one that is overdue, in a second.
   * @param {number} nowUs
   */
  plannedEndUs(nowUs) {
    return this.estimatedEndUs > nowUs ? this.estimatedEndUs : nowUs + SECOND_US
  }
}

/**
 * Joins neighbouring spans with equally many chunks a node; they must ascend.
 * @param {Span[]} spans
 * @returns {Span[]}
 */
export function merged(spans) {
  /** @type {Span[]} */
  const result = []
  for (const [first, last, chunks] of spans) {
    const before = result.at(-1)
    if (before && before[1] + 1 === first && before[2] === chunks) before[1] = last
    else result.push([first, last, chunks])
  }
  return result
}
