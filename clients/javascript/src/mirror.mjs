// The state of the simulation as it is known here: queue, running jobs, nodes, timers.

import { createHash } from 'node:crypto'
import { Cluster, byCodePoints } from './cluster.mjs'
import { ClientError, Drift } from './errors.mjs'
import { Job, RunningJob, merged } from './job.mjs'
import { JobQueue } from './queue.mjs'

/** @typedef {import('./job.mjs').Shape} Shape */
/** @typedef {import('./messages.mjs').Span} Span */
/** @typedef {import('./messages.mjs').State} State */
/** @typedef {import('./messages.mjs').Platform} Platform */
/** @typedef {import('./messages.mjs').JobDescription} JobDescription */
/** @typedef {import('./messages.mjs').ChunkGroup} ChunkGroup */

/**
 * Is told of every change of a view at once, be it the server's or one's own decision; for whoever
 * keeps an index beside it. A start that the server refuses is told as `ended`, then `joined`.
 * @typedef {object} Watcher
 * @property {(job: Job) => void} [joined] pending from now on, for the first time or again
 * @property {(job: Job) => void} [left] pending no more, and it will not start
 * @property {(running: RunningJob) => void} [started] was pending, and runs
 * @property {(running: RunningJob) => void} [ended] runs no more
 * @property {() => void} [reloaded] everything was replaced by a state of the server's
 */

export class Mirror {
  /** @type {Map<string, Shape>} */
  #shapes = new Map()
  #platform

  /** @param {Platform} platform */
  constructor(platform) {
    this.#platform = platform
    /** @type {Watcher[]} */
    this.watchers = []
    this.queue = new JobQueue()
    /** @type {Map<number, Job>} */
    this.held = new Map()
    /** @type {Map<number, RunningJob>} */
    this.running = new Map()
    /** Instants by timer. @type {Map<number, number>} */
    this.timers = new Map()
    this.cluster = new Cluster(platform)
    this.exhausted = false
  }

  /**
   * Begins anew from a full state.
   * @param {State} state
   */
  load(state) {
    this.queue = new JobQueue()
    this.held.clear()
    this.running.clear()
    this.timers.clear()
    this.cluster = new Cluster(this.#platform)
    const holds = new Set(state.held)
    for (const description of state.pending) {
      const job = this.#job(description)
      if (holds.has(job.number)) this.held.set(job.number, job)
      else this.queue.add(job)
    }
    for (const entry of state.running) {
      const job = this.#job(entry.job)
      const spans = onlyGroup(entry.allocation)
      this.cluster.take(job.shape, spans)
      this.running.set(job.number, new RunningJob(job, entry.start_us, spans))
    }
    for (const [first, last, , service] of state.nodes) {
      if (service !== 'up') this.cluster.setUp(first, last, false)
    }
    for (const { timer, at_us: atUs } of state.timers) this.timers.set(timer, atUs)
    this.exhausted = state.exhausted
    for (const watcher of this.watchers) watcher.reloaded?.()
  }

  /** @param {JobDescription} description */
  submit(description) {
    this.join(this.#job(description))
  }

  /**
   * Puts a job in its place in the queue, for the first time or again.
   * @param {Job} job
   */
  join(job) {
    this.queue.add(job)
    for (const watcher of this.watchers) watcher.joined?.(job)
  }

  /**
   * Lets a job be pending no more, or not to be started.
   * @param {Job} job
   */
  leave(job) {
    this.queue.remove(job)
    for (const watcher of this.watchers) watcher.left?.(job)
  }

  /** @param {Job} job */
  hold(job) {
    this.leave(job)
    this.held.set(job.number, job)
  }

  /** @param {Job} job */
  release(job) {
    this.held.delete(job.number)
    this.join(job)
  }

  /**
   * Moves a job from the queue to its nodes.
   * @param {Job} job
   * @param {Span[]} spans
   * @param {number} atUs
   */
  run(job, spans, atUs) {
    this.cluster.take(job.shape, spans)
    this.queue.remove(job)
    const running = new RunningJob(job, atUs, spans)
    this.running.set(job.number, running)
    for (const watcher of this.watchers) watcher.started?.(running)
  }

  /**
   * @param {number} number
   * @param {Span[][]} allocation
   * @param {number} atUs
   */
  startedElsewhere(number, allocation, atUs) {
    const job = this.queue.get(number)
    if (job === undefined) throw new Drift(`job ${number} was started and is not pending here`)
    this.run(job, onlyGroup(allocation), atUs)
  }

  /**
   * Takes a job off its nodes.
   * @param {number} number
   */
  stop(number) {
    const running = this.running.get(number)
    if (running === undefined) throw new Drift(`job ${number} has ended and does not run here`)
    this.running.delete(number)
    this.cluster.release(running.job.shape, running.spans)
    for (const watcher of this.watchers) watcher.ended?.(running)
    return running.job
  }

  /**
   * Returns the digest of the state as it is known here; O(jobs + nodes).
   * @param {number} nowUs
   */
  digest(nowUs) {
    const pending = [...this.held.keys(), ...[...this.queue].map((job) => job.number)]
    const lines = [`now ${nowUs}`]
    for (const number of ascending(pending)) lines.push(`pending ${number}`)
    for (const number of ascending(this.held.keys())) lines.push(`held ${number}`)
    for (const number of ascending(this.running.keys())) {
      const { startUs, spans } = /** @type {RunningJob} */ (this.running.get(number))
      const written = spans.map(([first, last, chunks]) => `${first}-${last}*${chunks}`)
      lines.push(`running ${number} ${startUs} ${written.join(',')}`)
    }
    for (const [kind, amount] of this.cluster.free()) lines.push(`free ${kind} ${amount}`)
    for (const [first, last] of this.cluster.down()) lines.push(`down ${first}-${last}`)
    for (const timer of ascending(this.timers.keys())) {
      lines.push(`timer ${timer} ${this.timers.get(timer)}`)
    }
    return digestOf(lines)
  }

  /** @param {JobDescription} description */
  #job(description) {
    const { job, request } = description
    if (request.length !== 1) {
      throw new ClientError(
        `job ${job} asks for ${request.length} groups of chunks; this client knows one`
      )
    }
    return new Job(description, this.#shape(request[0]))
  }

  /**
   * Returns the one object of a shape, so that shapes can be compared and looked up.
   * @param {ChunkGroup} group
   */
  #shape({ per_chunk: perChunk, exclusive }) {
    const asked = Object.entries(perChunk).filter(([, amount]) => amount > 0)
    if (asked.length > 1) asked.sort(([a], [b]) => byCodePoints(a, b))
    const key = JSON.stringify([exclusive, asked])
    let shape = this.#shapes.get(key)
    if (shape === undefined) {
      shape = { perChunk: asked, exclusive }
      this.#shapes.set(key, shape)
    }
    return shape
  }
}

/**
 * The digest of lines, each without its line feed.
 * @param {string[]} lines
 */
export function digestOf(lines) {
  return createHash('sha256').update(lines.map((line) => `${line}\n`).join('')).digest('hex')
}

/** @param {Iterable<number>} numbers */
function ascending(numbers) {
  return [...numbers].sort((a, b) => a - b)
}

/** @param {Span[][]} allocation */
function onlyGroup(allocation) {
  if (allocation.length !== 1) {
    throw new ClientError(`an allocation of ${allocation.length} groups; this client knows one`)
  }
  return merged(allocation[0])
}
