import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NEVER, WrongUsage } from '../src/index.mjs'
import { parseOptions } from '../dispatchers/options.mjs'
import { Releases } from '../dispatchers/releases.mjs'

test('all releases of one instant count together', () => {
  const releases = new Releases()
  releases.add(20, 3)
  releases.add(10, 2)
  releases.add(20, 4)

  assert.deepEqual(releases.earliest(2, 0), { atUs: 10, extra: 0 })
  assert.deepEqual(releases.earliest(3, 0), { atUs: 20, extra: 6 })
  assert.deepEqual(releases.earliest(10, 0), { atUs: NEVER, extra: 0 })
  releases.remove(20, 3)
  assert.deepEqual(releases.earliest(3, 0), { atUs: 20, extra: 3 })
})

test('what is overdue comes in one second, with what is due then', () => {
  const releases = new Releases()
  releases.add(5_000_000, 2)
  releases.add(9_000_000, 1)
  releases.add(10_000_000, 4)

  assert.deepEqual(releases.earliest(2, 9_000_000), { atUs: 10_000_000, extra: 5 })
  assert.deepEqual(releases.earliest(2, 8_500_000), { atUs: 9_500_000, extra: 1 })
  assert.deepEqual(releases.earliest(1, 8_500_000), { atUs: 9_000_000, extra: 0 })
  assert.deepEqual(releases.earliest(7, 20_000_000), { atUs: 21_000_000, extra: 0 })
})

test('options are taken, and an interval to the microsecond', () => {
  const options = parseOptions(
    ['--connect', 'tcp://x:1', '--interval=0.3m', '--kill-overdue', '--session-file', 's']
  )

  assert.deepEqual(options, {
    connect: 'tcp://x:1',
    sessionFile: 's',
    intervalUs: 18_000_000,
    killOverdue: true
  })
})

for (const words of [
  ['--interval', '0'],
  ['--interval', 'soon'],
  ['--interval'],
  ['--kill-overdue=yes'],
  ['--colour'],
  ['fifo']
]) {
  test(`${words.join(' ')} is wrong usage, in one line`, () => {
    assert.throws(
      () => parseOptions(words),
      (error) => error instanceof WrongUsage && !error.message.includes('\n')
    )
  })
}
