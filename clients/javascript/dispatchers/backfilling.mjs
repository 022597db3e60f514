// EASY backfilling: jobs start in order; behind the first that does not fit, the head, others start
// that do not delay it.
//
// The head's shadow time is the first instant at which enough is free if all running jobs take as
// long as estimated; all releases of one instant count together. A later job starts if it fits now
// and is over by then, at that very instant at the latest, or if the head could start then beside
// it. Where all jobs ask for the same chunk, that is a matter of counting; else the nodes of the
// shadow time are looked at.
//
// Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995.

import { FOREVER, NEVER } from '../src/index.mjs'
import { Releases } from './releases.mjs'

/** @typedef {import('../src/index.mjs').Dispatcher} Dispatcher */
/** @typedef {import('../src/index.mjs').Watcher} Watcher */
/** @typedef {import('../src/index.mjs').View} View */
/** @typedef {import('../src/index.mjs').Job} Job */
/** @typedef {import('../src/index.mjs').Cluster} Cluster */
/** @typedef {import('../src/job.mjs').Shape} Shape */
/** @typedef {import('../src/job.mjs').RunningJob} RunningJob */

/**
 * @implements {Dispatcher}
 * @implements {Watcher}
 */
export class Easy {
  name = 'easy'
  actionable = true

  /** @type {View | undefined} */
  #view
  /** @type {Map<Shape, string>} */
  #kinds = new Map()
  /** @type {Map<Shape | string, number>} */
  #jobsOfKind = new Map()
  /** @type {Map<number, number>} */
  #ends = new Map()
  #releases = new Releases()

  /** @param {View} view */
  begin(view) {
    this.#view = view
    view.watch(this)
    this.reloaded()
  }

  reloaded() {
    const view = this.#view
    if (view === undefined) return
    this.#kinds.clear()
    this.#jobsOfKind.clear()
    this.#ends.clear()
    this.#releases = new Releases()
    for (const job of view.queue) this.joined(job)
    for (const running of view.running.values()) {
      this.joined(running.job)
      this.started(running)
    }
  }

  /** @param {Job} job */
  joined(job) {
    const kind = this.#kind(job.shape)
    this.#jobsOfKind.set(kind, (this.#jobsOfKind.get(kind) ?? 0) + 1)
  }

  /** @param {Job} job */
  left(job) {
    const kind = this.#kind(job.shape)
    const left = (this.#jobsOfKind.get(kind) ?? 0) - 1
    if (left > 0) this.#jobsOfKind.set(kind, left)
    else this.#jobsOfKind.delete(kind)
  }

  /** @param {RunningJob} running */
  started({ job, estimatedEndUs }) {
    // Kept: where decisions take time, the start is corrected afterwards.
    this.#ends.set(job.number, estimatedEndUs)
    this.#releases.add(estimatedEndUs, job.chunks)
  }

  /** @param {RunningJob} running */
  ended({ job }) {
    this.left(job)
    this.#releases.remove(/** @type {number} */ (this.#ends.get(job.number)), job.chunks)
    this.#ends.delete(job.number)
  }

  /**
   * Chunks that take whole nodes of the same kinds are of one kind, whatever they ask for.
   * @param {Shape} shape
   */
  #kind(shape) {
    if (!shape.exclusive) return shape
    let kind = this.#kinds.get(shape)
    if (kind === undefined) {
      kind = String(this.#view?.nodes.kindsOfNodes(shape))
      this.#kinds.set(shape, kind)
    }
    return kind
  }

  /** @param {View} view */
  decide(view) {
    const { head } = view.queue
    if (head === null) return
    const uniform = this.#jobsOfKind.size <= 1
    const room = uniform
      ? new Slots(view, this.#releases, view.nodes.available(head.shape))
      : new Nodes(view)
    let reserved = false
    for (const job of view.queue) {
      if (!room.start(job) && !reserved) {
        room.reserve(job)
        reserved = true
      }
      if (room.isFull()) break
    }
  }
}

/** Where all jobs ask for the same chunk: slots free now, and extra ones at the shadow time. */
class Slots {
  #view
  #releases
  #free
  #extra
  #untilShadowUs = FOREVER

  /**
   * @param {View} view
   * @param {Releases} releases
   * @param {number} free
   */
  constructor(view, releases, free) {
    this.#view = view
    this.#releases = releases
    this.#free = free
    this.#extra = free
  }

  /**
   * Starts a job if it fits and does not delay the head.
   * @param {Job} job
   */
  start(job) {
    const beyondShadow = job.plannedLengthUs > this.#untilShadowUs
    if (job.chunks > this.#free || (beyondShadow && job.chunks > this.#extra)) return false
    this.#view.start(job)
    this.#free -= job.chunks
    if (beyondShadow) this.#extra -= job.chunks
    return true
  }

  /**
   * Keeps slots for the head, which does not fit now, as soon as there are enough.
   * @param {Job} head
   */
  reserve(head) {
    const { nowUs } = this.#view
    const { atUs, extra } = this.#releases.earliest(head.chunks - this.#free, nowUs)
    this.#extra = extra
    this.#untilShadowUs = atUs - nowUs
  }

  isFull() {
    return this.#free === 0
  }
}

/** Where counting does not tell what fits: the machine now, and as it will be then. */
class Nodes {
  #view
  /** @type {{head: Job, shadowUs: number, then: Cluster} | null} */
  #reservation = null

  /** @param {View} view */
  constructor(view) {
    this.#view = view
  }

  /** @param {Job} job */
  start(job) {
    const spans = this.#view.place(job)
    if (spans === null) return false
    if (this.#reservation !== null) {
      const { head, shadowUs, then } = this.#reservation
      if (this.#view.nowUs + job.plannedLengthUs > shadowUs) {
        then.take(job.shape, spans)
        if (!then.fits(head.shape, head.chunks)) {
          then.release(job.shape, spans)
          return false
        }
      }
    }
    return this.#view.start(job, spans)
  }

  /**
   * Finds out when the head will fit; O(nodes + running * log running).
   * @param {Job} head
   */
  reserve(head) {
    const { nowUs } = this.#view
    const then = this.#view.nodes.fork()
    const ends = [...this.#view.running.values()].map((running) => ({
      running,
      end: running.plannedEndUs(nowUs)
    }))
    ends.sort((a, b) => a.end - b.end)
    for (let at = 0; at < ends.length; ) {
      const { end } = ends[at]
      for (; at < ends.length && ends[at].end === end; at++) {
        then.release(ends[at].running.job.shape, ends[at].running.spans)
      }
      if (then.fits(head.shape, head.chunks)) {
        this.#reservation = { head, shadowUs: end, then }
        return
      }
    }
    this.#reservation = { head, shadowUs: NEVER, then }
  }

  isFull() {
    return false
  }
}
