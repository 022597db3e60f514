import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Router } from 'zeromq'
import { decode, encode } from '../src/codec.mjs'
import { ConnectionLost, ServerRefused, WrongUsage, serve } from '../src/index.mjs'
import { json } from './repository.mjs'

const end = json('examples/session.end-stopped.json').body

const message = (seq, type, body) => ({ v: 1, type, session: 's', epoch: 1, seq, body })

function welcome(limits = {}, onDisconnect = 'fail') {
  const { body } = json('examples/welcome-resumed.json')
  Object.assign(body.limits, limits)
  body.policy.on_disconnect = onDisconnect
  return message(1, 'welcome', body)
}

const request = (seq, more = {}) =>
  message(seq, 'decision.request', {
    ...json('examples/decision.request-resumed.json').body,
    ...more
  })

const error = (seq, code, fatal) => message(seq, 'error', { code, message: 'told\nso', fatal })

/** A server that says its lines whatever it hears; returns what that was, and how it ended. */
async function play(lines, dispatcher, options) {
  const socket = new Router({ linger: 0 })
  await socket.bind('tcp://127.0.0.1:*')
  const heard = []
  const course = (async () => {
    for (const line of lines) {
      const frames = await socket.receive()
      heard.push(decode(frames.at(-1)))
      await socket.send([...frames.slice(0, -1), encode(line)])
    }
  })()
  const outcome = await serve(dispatcher, socket.lastEndpoint, options).catch((fault) => fault)
  await course
  socket.close()
  return { heard, outcome, types: heard.map(({ type }) => type) }
}

const idle = () => {}

test('a refused hello is told in one line, and the ticket forgotten', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'parley-')), 'ticket')
  writeFileSync(file, '{"session": "s", "token": "t"}')

  const { heard, outcome } = await play([error(1, 'session.over', true)], idle, {
    sessionFile: file
  })

  assert.ok(outcome instanceof ServerRefused)
  assert.equal(outcome.message, 'the server says session.over: told so')
  assert.deepEqual(heard[0].body.resume, { session: 's', token: 't' })
  assert.equal(existsSync(file), false)
})

test('the ticket lies in its file as long as the session is open', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'parley-')), 'ticket')
  let kept
  const look = () => {
    kept = JSON.parse(readFileSync(file, 'utf8'))
  }

  await play([welcome(), request(2), message(3, 'session.end', end)], look, { sessionFile: file })

  assert.equal(kept.session, 's')
  assert.equal(existsSync(file), false)
})

test('after an error that is not fatal the session is left', async () => {
  const { heard, outcome, types } = await play(
    [welcome(), request(2), error(3, 'of.later', false), message(4, 'session.end', end)],
    idle
  )

  assert.ok(outcome instanceof ServerRefused && !outcome.fatal)
  assert.deepEqual(types, ['hello', 'ready', 'decision.reply', 'bye'])
  assert.equal(heard[3].re, 2)
})

test('after a fatal error nothing is said', async () => {
  const { outcome, types } = await play([welcome(), request(2), error(3, 'of.later', true)], idle)

  assert.ok(outcome instanceof ServerRefused && outcome.fatal)
  assert.deepEqual(types, ['hello', 'ready', 'decision.reply'])
})

test('a dispatcher that fails leaves the session', async () => {
  const faulty = () => {
    throw new TypeError('no idea')
  }
  const { outcome, types } = await play(
    [welcome(), request(2), message(3, 'session.end', end)],
    faulty
  )

  assert.ok(outcome instanceof TypeError)
  assert.deepEqual(types, ['hello', 'ready', 'bye'])
})

test('no reply holds more decisions than the server takes, and the rest has not happened', async () => {
  const seen = []
  const eager = (view) => {
    seen.push(view.timers.size)
    for (let timer = 1; timer <= 5; timer++) view.callAt(view.nowUs + timer)
  }
  const outcomes = [0, 1].map((id) => ({ id, status: 'applied' }))
  const next = request(3, { state: undefined, state_digest: undefined, events: [], outcomes })
  const { heard } = await play(
    [welcome({ decisions: 2 }), request(2), next, message(4, 'session.end', end)],
    eager
  )

  assert.equal(heard[2].body.decisions.length, 2)
  assert.deepEqual(seen, [1, 3])
})

test('no reply is longer than the server takes', async () => {
  const wordy = (view) => {
    for (let count = 0; count < 8; count++) view.stop('x'.repeat(100))
  }
  const { heard } = await play(
    [welcome({ message_bytes: 700 }), request(2), message(3, 'session.end', end)],
    wordy
  )

  assert.ok(encode(heard[2]).length <= 700)
  assert.equal(heard[2].body.decisions.length, 4)
})

test('a mirror that differs is begun anew from the state that is asked for', async () => {
  const snapshot = json('examples/state.snapshot.json').body
  const { heard, types } = await play(
    [
      welcome(),
      request(2, { state_digest: '0'.repeat(64) }),
      message(3, 'state.snapshot', snapshot),
      message(4, 'session.end', end)
    ],
    idle
  )

  assert.deepEqual(types, ['hello', 'ready', 'state.request', 'decision.reply'])
  assert.equal(heard[3].re, 2)
})

test('a dispatcher may ask whether the server is there, for time, and leave', async () => {
  const talker = async (view) => {
    await view.ping()
    await view.progress('thinking')
    view.leave()
  }
  const { types } = await play(
    [
      welcome(),
      request(2),
      message(3, 'pong', {}),
      message(4, 'progress.ack', { deadline_ms: 5 }),
      message(5, 'session.end', { ...end, reason: 'bye' })
    ],
    talker
  )

  assert.deepEqual(types, ['hello', 'ready', 'ping', 'progress', 'bye'])
})

test('a message that is none of the protocol is told by its field', async () => {
  const { outcome, types } = await play(
    [welcome(), request(2, { now_us: '7' }), message(3, 'session.end', end)],
    idle
  )

  assert.match(outcome.message, /body\.now_us: an integer from 0 is due, not "7"/)
  assert.deepEqual(types, ['hello', 'ready', 'bye'])
})

test('a server that never answers is given up', async () => {
  await assert.rejects(serve(idle, 'tcp://127.0.0.1:9', { patienceMs: 200 }), ConnectionLost)
})

test('what is no endpoint and what is no ticket is wrong usage', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'parley-')), 'torn')
  writeFileSync(file, '{"session": ')
  for (const endpoint of ['nonsense', 'tcp://', 'tcp://127.0.0.1:port', 'x://y']) {
    await assert.rejects(serve(idle, endpoint), WrongUsage)
  }
  await assert.rejects(serve(idle, 'tcp://127.0.0.1:9', { sessionFile: file }), WrongUsage)
})
