// Deciding only so often.

/** @typedef {import('../src/index.mjs').Dispatcher} Dispatcher */
/** @typedef {import('../src/index.mjs').View} View */

/**
 * Lets another decide only at multiples of an interval since time 0, woken by timers.
 * @implements {Dispatcher}
 */
export class Periodic {
  #inner
  #intervalUs
  #tick = -1

  /**
   * @param {Dispatcher} inner
   * @param {number} intervalUs
   */
  constructor(inner, intervalUs) {
    this.#inner = inner
    this.#intervalUs = intervalUs
    this.name = inner.name
    this.actionable = false
  }

  /** @param {View} view */
  begin(view) {
    view.watch({
      reloaded: () => {
        this.#tick = -1
      }
    })
    this.#inner.begin?.(view)
  }

  /** @param {View} view */
  async decide(view) {
    // Where decisions take time, a timer may fire while they do; one is told of it afterwards.
    const woken = this.#tick >= 0 && this.#tick <= view.nowUs
    if (woken) this.#tick = -1
    if (!woken && view.nowUs % this.#intervalUs !== 0) {
      this.#comeBack(view)
      return
    }
    const waiting = view.queue.size
    await this.#inner.decide(view)
    if (view.queue.size < waiting) this.#comeBack(view)
  }

  /** @param {View} view */
  #comeBack(view) {
    if (view.queue.size === 0 || this.#tick >= 0) return
    // The next after this takes effect: before, it would be refused as past.
    const effective = view.nowUs + (view.welcome.policy.latency_us ?? 0)
    this.#tick = effective - (effective % this.#intervalUs) + this.#intervalUs
    view.callAt(this.#tick)
  }
}
