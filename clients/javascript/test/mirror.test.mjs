import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byCodePoints } from '../src/cluster.mjs'
import { ClientError, Drift } from '../src/errors.mjs'
import { digestOf } from '../src/mirror.mjs'
import { View } from '../src/view.mjs'
import { json, transcript } from './repository.mjs'

const strict = (view) => {
  for (const job of view.queue) {
    if (!view.start(job)) break
  }
}

const decisionsOf = (view) => view.sent.map(({ decision }) => decision)

for (const name of ['plain', 'shared', 'failing']) {
  test(`the requests of the transcript ${name} are answered as first come, first served did`, () => {
    let view
    let replies = 0
    for (const { type, body } of transcript(name)) {
      if (type === 'welcome') view = new View(body)
      else if (type === 'decision.request') {
        view.update(body)
        strict(view)
      } else if (type === 'decision.reply') {
        assert.deepEqual(decisionsOf(view), body.decisions)
        replies++
      }
    }
    assert.ok(replies > 5)
  })
}

test('the mirror comes by itself to every state that is told', () => {
  let mirror
  let told
  let states = 0
  for (const { type, body } of transcript('shared')) {
    if (type === 'welcome') {
      mirror = new View(body)
      told = new View(body)
    } else if (type === 'decision.request') {
      told.update(body)
      mirror.update(states === 0 ? body : { ...body, state: undefined })

      assert.equal(mirror.digest(), told.digest())
      strict(mirror)
      states++
    }
  }
  assert.ok(states > 5)
})

test('the digest is that of the specification', () => {
  const lines = [
    'now 7200000000',
    'pending 12',
    'held 12',
    'running 7 3600000000 0-3*1,9-9*2',
    'free core 14',
    'free gpu 0',
    'down 4-4',
    'down 6-7',
    'timer 1 9000000000'
  ]

  assert.equal(digestOf(lines), 'bbc14bdb3ec267337fe67ae2e84d26201923bfff679b9ecf453707eec98fe700')
})

test('the digest of a state is that of the server', () => {
  const view = new View(json('examples/welcome-resumed.json').body)
  const { body } = json('examples/decision.request-resumed.json')

  view.update(body)

  assert.equal(view.digest(), body.state_digest)
  assert.deepEqual([view.fired, view.ended], [[1], [0]])
  assert.equal(view.rejected[0].code, 'timer.unknown')
})

test('resources are ordered by code points', () => {
  // As halves of surrogate pairs, the second would come first.
  assert.ok(byCodePoints('\uff5e', '\u{1f9ee}') < 0)
  assert.ok('\uff5e' > '\u{1f9ee}')
})

/** A session on whole nodes of one core. */
function session(nodes) {
  const groups = [{ name: 'n', first: 0, last: nodes - 1, capacity: { core: 1 } }]
  const view = new View({ platform: { node_count: nodes, groups } })
  const told = (outcomes, ...events) =>
    view.update({ now_us: view.nowUs + 10_000_000, events, outcomes })
  return { view, told, ask: (...events) => told([], ...events) }
}

const submitted = (job, chunks = 1) => ({
  kind: 'job.submitted',
  at_us: 0,
  job: {
    job,
    name: `j${job}`,
    submit_us: 0,
    walltime_us: 60_000_000,
    request: [{ chunks, per_chunk: { core: 1 }, exclusive: true }]
  }
})

test('a refused start is undone in its place', () => {
  const { view, ask, told } = session(4)
  ask(submitted(0, 2), submitted(1, 2))
  const first = view.queue.head
  strict(view)

  told([{ id: 0, status: 'rejected', code: 'node.busy' }, { id: 1, status: 'applied' }])

  assert.equal(view.queue.head, first)
  assert.equal(view.nodes.available(first.shape), 2)
  assert.deepEqual([...view.running.keys()], [1])
})

test('a start that takes time holds nothing until it takes effect', () => {
  const { view, ask, told } = session(4)
  ask(submitted(0, 2))
  strict(view)

  told(
    [{ id: 0, status: 'applied', at_us: 7_000_000 }],
    { kind: 'node.down', at_us: 3_000_000, nodes: [[0, 0]] },
    { kind: 'node.up', at_us: 5_000_000, nodes: [[0, 0]] }
  )

  assert.equal(view.running.get(0).startUs, 7_000_000)
  assert.deepEqual(view.running.get(0).spans, [[0, 1, 1]])
})

test('what cannot be is noticed', () => {
  const { ask, told } = session(4)

  assert.throws(
    () => ask({ kind: 'job.ended', at_us: 0, job: 9, status: 'completed' }),
    Drift
  )
  assert.throws(() => told([{ id: 4, status: 'rejected', code: 'node.busy' }]), Drift)
  assert.throws(() => ask({ kind: 'node.down', at_us: 0, nodes: [[3, 4]] }), Drift)
})

test('impossible decisions are refused at once', () => {
  const { view, ask } = session(4)
  ask(submitted(0, 2))
  const job = view.queue.head
  view.start(job)

  assert.throws(() => view.start(job), ClientError)
  assert.throws(() => view.release(job), ClientError)
  assert.throws(() => view.cancel(3), ClientError)
  assert.throws(() => view.callAt(10.5), ClientError)
})

test('jobs may leave while one iterates', () => {
  const { view, ask } = session(4)
  ask(...[0, 1, 2, 3, 4, 5].map((job) => submitted(job)))
  const seen = []
  for (const job of view.queue) {
    seen.push(job.number)
    view.reject(job)
    if (job.number === 2) view.reject(view.queue.get(3))
  }

  assert.deepEqual(seen, [0, 1, 2, 4, 5])
  assert.equal(view.queue.size, 0)
})
