#!/usr/bin/env node
// First come, first served on whole nodes, with nothing of Parley's: zeromq and @msgpack/msgpack.

import { decode, encode } from '@msgpack/msgpack'
import { Request } from 'zeromq'

const endpoint = process.env.PARLEY_ENDPOINT
if (!endpoint) {
  console.error('smallest: PARLEY_ENDPOINT is not set (parley run sets it)')
  process.exit(2)
}
const socket = new Request()
socket.connect(endpoint)
let session = {}

/**
 * @param {string} type
 * @param {object} body
 * @returns {Promise<any>} the server's answer
 */
async function ask(type, body, more = {}) {
  await socket.send(encode({ v: 1, type, body, ...session, ...more }))
  const [frame] = await socket.receive()
  return decode(frame)
}

const me = { name: 'smallest', version: '1', language: 'javascript' }
const can = { state: 'snapshot' }
let answer = await ask('hello', { versions: ['1.0'], client: me, capabilities: can })
session = { session: answer.session, epoch: answer.epoch }
if (answer.type === 'welcome') answer = await ask('ready', {}, { re: answer.seq })
while (answer.type === 'decision.request') {
  const { state, state_version: version } = answer.body
  let free = 0
  for (const [first, last, left] of state.nodes) free += left.core > 0 ? last - first + 1 : 0
  const starts = []
  for (const { job, request } of state.pending) {
    free -= request[0].chunks
    if (free < 0) break
    starts.push({ id: starts.length, kind: 'start', job })
  }
  const reply = { decisions: starts, state_version: version }
  answer = await ask('decision.reply', reply, { re: answer.seq })
}
const last = answer.type === 'error' ? answer.body.message : answer.body.reason
if (last !== 'completed') console.error(`smallest: ${last}`)
process.exit(last === 'completed' ? 0 : 1)
