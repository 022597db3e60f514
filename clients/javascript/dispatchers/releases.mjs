// When running jobs are estimated to give their slots back.

import { NEVER } from '../src/index.mjs'

const SECOND_US = 1_000_000

/** Slots by the instant of their estimated release, us. */
export class Releases {
  /** @type {Map<number, number>} */
  #slots = new Map()
  /** Ascending. @type {number[]} */
  #instants = []

  /**
   * @param {number} endUs
   * @param {number} slots
   */
  add(endUs, slots) {
    const held = this.#slots.get(endUs)
    if (held === undefined) this.#instants.splice(this.#place(endUs), 0, endUs)
    this.#slots.set(endUs, (held ?? 0) + slots)
  }

  /**
   * @param {number} endUs
   * @param {number} slots
   */
  remove(endUs, slots) {
    const left = (this.#slots.get(endUs) ?? 0) - slots
    if (left > 0) {
      this.#slots.set(endUs, left)
    } else {
      this.#slots.delete(endUs)
      this.#instants.splice(this.#place(endUs), 1)
    }
  }

  /**
   * When so many slots will have come back, and how many too many come with them.
   *
   * All releases of one instant count together, and those that are overdue come in one second. If
   * there never are so many, the instant is `NEVER`. Costs O(instants until then).
   * @param {number} slots
   * @param {number} nowUs
   */
  earliest(slots, nowUs) {
    const overdueUs = nowUs + SECOND_US
    let missing = slots
    let at = 0
    let overdue = 0
    while (at < this.#instants.length && this.#instants[at] <= nowUs) {
      overdue += this.#slotsAt(at++)
    }
    for (; at < this.#instants.length; at++) {
      const endUs = this.#instants[at]
      if (overdue > 0 && endUs > overdueUs) {
        missing -= overdue
        overdue = 0
        if (missing <= 0) return { atUs: overdueUs, extra: 0 - missing }
      }
      missing -= this.#slotsAt(at)
      if (overdue > 0 && endUs === overdueUs) {
        missing -= overdue
        overdue = 0
      }
      if (missing <= 0) return { atUs: endUs, extra: 0 - missing }
    }
    missing -= overdue
    if (overdue > 0 && missing <= 0) return { atUs: overdueUs, extra: 0 - missing }
    return { atUs: NEVER, extra: 0 }
  }

  /** @param {number} at */
  #slotsAt(at) {
    return /** @type {number} */ (this.#slots.get(this.#instants[at]))
  }

  /** @param {number} endUs */
  #place(endUs) {
    let low = 0
    let high = this.#instants.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#instants[middle] < endUs) low = middle + 1
      else high = middle
    }
    return low
  }
}
