// A dispatcher's picture of the nodes, made for being searched.

import { Drift } from './errors.mjs'

/** @typedef {import('./job.mjs').Shape} Shape */
/** @typedef {import('./messages.mjs').Span} Span */
/** @typedef {import('./messages.mjs').Platform} Platform */

/** Indexes kept; a trace may ask for another amount of memory in every line. */
const MOST_ROOMS = 128

/** Changes kept; an index that has missed more is made anew. */
const MOST_CHANGES = 1024

/** For one shape, how many chunks of it each node would take now. */
class Room {
  #counts
  /** One byte a node: finding the next that is usable is one search of memory. */
  #usable

  /** @param {number} nodes */
  constructor(nodes) {
    this.#counts = new Float64Array(nodes)
    this.#usable = new Uint8Array(nodes)
    this.total = 0
    /** How many of its cluster's changes are counted in. */
    this.changesSeen = 0
  }

  /**
   * @param {number} node
   * @param {number} count
   */
  set(node, count) {
    this.total += count - this.#counts[node]
    this.#counts[node] = count
    this.#usable[node] = count > 0 ? 1 : 0
  }

  /**
   * The lowest nodes that hold so many chunks, each as far as it goes; O(nodes used).
   * @param {number} chunks for which there is room
   */
  lowest(chunks) {
    /** @type {Span[]} */
    const spans = []
    let node = -1
    for (let missing = chunks; missing > 0; ) {
      node = this.#usable.indexOf(1, node + 1)
      const count = Math.min(this.#counts[node], missing)
      missing -= count
      const before = spans.at(-1)
      if (before && before[1] + 1 === node && before[2] === count) before[1] = node
      else spans.push([node, node, count])
    }
    return spans
  }
}

/**
 * The nodes and what is free on them.
 *
 * What fits is indexed by shape. A change is noted once, and counted into an index when that is
 * asked for: both cost O(nodes touched).
 */
export class Cluster {
  /** @type {Map<Shape, Room>} */
  #rooms = new Map()
  /** @type {Span[]} */
  #changes = []
  #changeCount = 0
  /** By resource, ascending in code points. @type {Map<string, Float64Array>} */
  #free = new Map()

  /** @param {Platform} platform */
  constructor(platform) {
    this.nodeCount = platform.node_count
    this.groups = platform.groups
    this.chunks = new Float64Array(this.nodeCount)
    this.sealed = new Uint8Array(this.nodeCount)
    this.isDown = new Uint8Array(this.nodeCount)
    this.groupOf = new Uint32Array(this.nodeCount)
    const kinds = new Set(this.groups.flatMap((group) => Object.keys(group.capacity)))
    for (const kind of [...kinds].sort(byCodePoints)) {
      this.#free.set(kind, new Float64Array(this.nodeCount))
    }
    this.groups.forEach(({ first, last, capacity }, index) => {
      this.groupOf.fill(index, first, last + 1)
      for (const kind in capacity) this.#free.get(kind)?.fill(capacity[kind], first, last + 1)
    })
  }

  /** Returns a copy to think ahead with, that shares nothing that changes; O(nodes * resources). */
  fork() {
    const twin = new Cluster({ node_count: this.nodeCount, groups: this.groups })
    twin.chunks.set(this.chunks)
    twin.sealed.set(this.sealed)
    twin.isDown.set(this.isDown)
    for (const [kind, amounts] of this.#free) twin.#free.get(kind)?.set(amounts)
    return twin
  }

  /**
   * How many chunks of a shape fit now, on all nodes together.
   * @param {Shape} shape
   */
  available(shape) {
    return this.#room(shape).total
  }

  /**
   * @param {Shape} shape
   * @param {number} chunks
   */
  fits(shape, chunks) {
    return this.available(shape) >= chunks
  }

  /**
   * The lowest-numbered nodes that hold the chunks, each filled as far as it goes; or null.
   * @param {Shape} shape
   * @param {number} chunks
   */
  firstFit(shape, chunks) {
    const room = this.#room(shape)
    return room.total < chunks ? null : room.lowest(chunks)
  }

  /**
   * For each group of nodes, whether an empty one takes a chunk of a shape.
   * @param {Shape} shape
   */
  kindsOfNodes(shape) {
    return this.groups.map((group) => takesWhole(shape, group.capacity))
  }

  /**
   * Puts chunks on nodes that have room for them.
   * @param {Shape} shape
   * @param {Span[]} spans
   */
  take(shape, spans) {
    this.#change(shape, spans, 1)
  }

  /**
   * Takes chunks off the nodes that hold them.
   * @param {Shape} shape
   * @param {Span[]} spans
   */
  release(shape, spans) {
    this.#change(shape, spans, -1)
  }

  /**
   * Takes nodes out of service, or returns them.
   * @param {number} first
   * @param {number} last
   * @param {boolean} up
   */
  setUp(first, last, up) {
    this.#requireNodes(first, last)
    this.isDown.fill(up ? 0 : 1, first, last + 1)
    this.#note([first, last, 1])
  }

  /** The ranges of nodes that are out of service, ascending, merged. */
  down() {
    /** @type {[number, number][]} */
    const ranges = []
    let first = this.isDown.indexOf(1)
    while (first >= 0) {
      const after = this.isDown.indexOf(0, first)
      const end = after < 0 ? this.nodeCount : after
      ranges.push([first, end - 1])
      first = this.isDown.indexOf(1, end)
    }
    return ranges
  }

  /**
   * What is free of each resource on all nodes in service together, beyond what a double holds;
   * O(nodes).
   */
  free() {
    /** @type {[string, bigint][]} */
    const totals = []
    for (const [kind, amounts] of this.#free) {
      let total = 0n
      for (let node = 0; node < this.nodeCount; node++) {
        if (!this.sealed[node] && !this.isDown[node]) total += BigInt(amounts[node])
      }
      totals.push([kind, total])
    }
    return totals
  }

  /**
   * @param {Shape} shape
   * @param {Span[]} spans
   * @param {number} sign
   */
  #change(shape, spans, sign) {
    for (const [first, last, chunks] of spans) {
      this.#requireNodes(first, last)
      if (shape.exclusive) this.sealed.fill(sign > 0 ? 1 : 0, first, last + 1)
      else this.#put(shape, first, last, sign * chunks)
      this.#note([first, last, chunks])
    }
  }

  /**
   * @param {Shape} shape
   * @param {number} first
   * @param {number} last
   * @param {number} change
   */
  #put(shape, first, last, change) {
    for (let node = first; node <= last; node++) this.chunks[node] += change
    for (const [kind, amount] of shape.perChunk) {
      const left = this.#free.get(kind)
      if (left === undefined) throw new Drift(`no node has any ${kind}`)
      for (let node = first; node <= last; node++) left[node] -= amount * change
    }
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  #requireNodes(first, last) {
    if (first > last || last >= this.nodeCount) {
      throw new Drift(`there are no nodes ${first} to ${last}`)
    }
  }

  /** @param {Span} span */
  #note(span) {
    this.#changes[this.#changeCount++ % MOST_CHANGES] = span
  }

  /** @param {Shape} shape */
  #room(shape) {
    let room = this.#rooms.get(shape)
    if (room === undefined) {
      room = new Room(this.nodeCount)
      this.#count(room, shape, 0, this.nodeCount - 1)
      for (const eldest of this.#rooms.keys()) {
        if (this.#rooms.size < MOST_ROOMS) break
        this.#rooms.delete(eldest)
      }
      this.#rooms.set(shape, room)
    } else if (this.#changeCount - room.changesSeen > MOST_CHANGES) {
      this.#count(room, shape, 0, this.nodeCount - 1)
    } else {
      for (let at = room.changesSeen; at < this.#changeCount; at++) {
        const [first, last] = this.#changes[at % MOST_CHANGES]
        this.#count(room, shape, first, last)
      }
    }
    room.changesSeen = this.#changeCount
    return room
  }

  /**
   * @param {Room} room
   * @param {Shape} shape
   * @param {number} first
   * @param {number} last
   */
  #count(room, shape, first, last) {
    const asked = shape.perChunk.map(([kind, amount]) => ({ left: this.#free.get(kind), amount }))
    for (let node = first; node <= last; node++) {
      if (this.isDown[node] || this.sealed[node]) {
        room.set(node, 0)
      } else if (shape.exclusive) {
        const { capacity } = this.groups[this.groupOf[node]]
        room.set(node, this.chunks[node] === 0 && takesWhole(shape, capacity) ? 1 : 0)
      } else {
        let count = 2 ** 50
        for (const { left, amount } of asked) {
          // Not the quotient's floor: a quotient just below a whole number may be rounded to it.
          const here = left === undefined ? 0 : (left[node] - (left[node] % amount)) / amount
          if (here < count) count = here
        }
        room.set(node, count)
      }
    }
  }
}

/**
 * @param {Shape} shape
 * @param {{[resource: string]: number}} capacity
 */
function takesWhole(shape, capacity) {
  return shape.perChunk.every(([kind, amount]) => (capacity[kind] ?? 0) >= amount)
}

/**
 * By code points, which `<` is not: it compares halves of surrogate pairs.
 * @param {string} a
 * @param {string} b
 */
export function byCodePoints(a, b) {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
