import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cluster } from '../src/cluster.mjs'

const MIXED = {
  node_count: 9,
  groups: [
    { name: 'thin', first: 0, last: 3, capacity: { core: 4, memory: 16 } },
    { name: 'fat', first: 4, last: 5, capacity: { core: 8, memory: 64 } },
    { name: 'gpu', first: 6, last: 8, capacity: { core: 4, gpu: 2 } }
  ]
}

const shape = (perChunk, exclusive = false) => ({ perChunk: Object.entries(perChunk), exclusive })

test('chunks go to the lowest nodes, each filled as far as it goes', () => {
  const cluster = new Cluster(MIXED)
  const asked = shape({ core: 3, memory: 5 })

  assert.deepEqual(cluster.firstFit(asked, 8), [[0, 3, 1], [4, 5, 2]])
  assert.deepEqual(cluster.firstFit(asked, 7), [[0, 3, 1], [4, 4, 2], [5, 5, 1]])
  assert.equal(cluster.firstFit(asked, 9), null)
})

test('an exclusive chunk takes an empty node whole', () => {
  const cluster = new Cluster(MIXED)
  const whole = shape({ core: 5 }, true)
  const core = shape({ core: 1 })

  cluster.take(whole, cluster.firstFit(whole, 1))
  assert.deepEqual(cluster.firstFit(whole, 1), [[5, 5, 1]])
  cluster.take(core, [[5, 5, 1]])

  assert.equal(cluster.firstFit(whole, 1), null)
  assert.equal(cluster.available(core), 16 + 7 + 12)
})

test('what no node has never fits', () => {
  const cluster = new Cluster(MIXED)

  assert.equal(cluster.fits(shape({ tape: 1 }), 1), false)
  assert.equal(cluster.fits(shape({ tape: 1 }, true), 1), false)
  assert.equal(cluster.fits(shape({ gpu: 2 }, true), 3), true)
})

test('no chunk too many is counted where a quotient would be rounded up', () => {
  const capacity = { byte: 2 ** 53 - 1 }
  const groups = [{ name: 'n', first: 0, last: 0, capacity }]
  const cluster = new Cluster({ node_count: 1, groups })

  // (2^53 - 1) / 2^52 is less than 2, and no double lies between.
  assert.equal(cluster.available(shape({ byte: 2 ** 52 })), 1)
})

/** Numbers that look drawn by chance, the same each time. */
function* drawn(seed) {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state >>> 8
  }
}

test('whatever came and went, the index says what counting anew says', () => {
  const shapes = [
    shape({ core: 1 }),
    shape({ core: 3, memory: 1 }),
    shape({ gpu: 1 }),
    shape({ core: 4 }, true),
    shape({}, true)
  ]
  for (let seed = 1; seed <= 40; seed++) {
    const numbers = drawn(seed)
    const below = (limit) => numbers.next().value % limit
    const cluster = new Cluster(MIXED)
    const placed = []
    const up = Array(9).fill(true)
    for (let step = 1; step <= 1500; step++) {
      const asked = shapes[below(shapes.length)]
      const spans = cluster.firstFit(asked, 1 + below(4))
      if (spans !== null && below(3) > 0) {
        cluster.take(asked, spans)
        placed.push([asked, spans])
      } else if (placed.length > 0) {
        cluster.release(...placed.splice(below(placed.length), 1)[0])
      }
      if (placed.length === 0) {
        const node = below(9)
        up[node] = !up[node]
        cluster.setUp(node, node, up[node])
      }
      // Asked for seldom, so that an index misses more than it can catch up with.
      if (step % 700 === 0) {
        const fresh = cluster.fork()
        for (const each of shapes) {
          assert.equal(cluster.available(each), fresh.available(each))
          assert.deepEqual(cluster.firstFit(each, 2), fresh.firstFit(each, 2))
        }
      }
    }
  }
})
