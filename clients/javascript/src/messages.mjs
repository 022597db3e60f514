// The messages of the server, and what they are made of: each as a check of a decoded value.
//
// A check returns the value it was given, or throws a ProtocolError with the path of the field.
// The types of TypeScript are made of the checks, so that the two cannot differ; a test holds the
// fields to the project's schemas. Nil and absent are the same, unknown fields are left alone.

import { ProtocolError } from './errors.mjs'

/**
 * @template T
 * @typedef {(value: unknown, path: string) => T} Check
 */

/**
 * @param {string} path
 * @param {string} due
 * @param {unknown} value
 * @returns {never}
 */
function refuse(path, due, value) {
  const found = JSON.stringify(value) ?? 'nothing'
  throw new ProtocolError(`${path}: ${due} is due, not ${found.slice(0, 40)}`)
}

/** @type {Check<string>} */
const text = (value, path) => (typeof value === 'string' ? value : refuse(path, 'a text', value))

/** @type {Check<boolean>} */
const truth = (value, path) =>
  typeof value === 'boolean' ? value : refuse(path, 'true or false', value)

/** @type {Check<number>} */
const natural = (value, path) =>
  Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0
    ? /** @type {number} */ (value)
    : refuse(path, 'an integer from 0', value)

/** @type {Check<number>} */
const amount = (value, path) =>
  typeof value === 'number' && value >= 0 ? value : refuse(path, 'a number from 0', value)

/** @type {Check<{[name: string]: unknown}>} */
const anyMap = (value, path) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? /** @type {{[name: string]: unknown}} */ (value)
    : refuse(path, 'a map', value)

/** @type {Check<{[resource: string]: number}>} */
const amounts = (value, path) => {
  const map = anyMap(value, path)
  for (const name in map) natural(map[name], path)
  return /** @type {{[resource: string]: number}} */ (map)
}

/**
 * @template T
 * @param {Check<T>} check
 * @returns {Check<T | null | undefined>}
 */
const optional = (check) => (value, path) =>
  value === undefined || value === null ? value : check(value, path)

/**
 * @template T
 * @param {Check<T>} check
 * @returns {Check<T[]>}
 */
const listOf = (check) => (value, path) => {
  if (!Array.isArray(value)) return refuse(path, 'an array', value)
  for (let at = 0; at < value.length; at++) check(value[at], `${path}.${at}`)
  return value
}

/**
 * A map with these fields; those that may be absent have a check that takes undefined.
 * @template {{[name: string]: Check<any>}} F
 * @param {F} fields
 * @returns {Check<{[K in keyof F]: ReturnType<F[K]>}> & {fields: F}}
 */
function record(fields) {
  const names = Object.keys(fields)
  /** @type {Check<any>} */
  const check = (value, path) => {
    const map = anyMap(value, path)
    for (const name of names) fields[name](map[name], path === '' ? name : `${path}.${name}`)
    return map
  }
  return Object.assign(check, { fields })
}

/** @type {Check<[number, number, number]>} */
const span = (value, path) => {
  if (!Array.isArray(value) || value.length !== 3) return refuse(path, 'a span', value)
  for (const number of value) natural(number, path)
  return /** @type {[number, number, number]} */ (value)
}

/** @type {Check<[number, number]>} */
const range = (value, path) => {
  if (!Array.isArray(value) || value.length !== 2) return refuse(path, 'a range', value)
  for (const number of value) natural(number, path)
  return /** @type {[number, number]} */ (value)
}

/** @type {Check<[number, number, {[resource: string]: number}, string]>} */
const nodeRun = (value, path) => {
  if (!Array.isArray(value) || value.length !== 4) return refuse(path, 'equal nodes', value)
  natural(value[0], path)
  natural(value[1], path)
  amounts(value[2], path)
  text(value[3], path)
  return /** @type {[number, number, {[resource: string]: number}, string]} */ (value)
}

const allocation = listOf(listOf(span))

export const Program = record({ name: text, version: text, language: optional(text) })

export const Granted = record({ state: text, decisions: text, submit: truth })

export const Limits = record({
  message_bytes: natural,
  depth: natural,
  string_bytes: natural,
  array_items: natural,
  containers: natural,
  decisions: natural,
  undecodable: natural,
  sessions: optional(natural)
})

export const Policy = record({
  on_reject: text,
  reasks: natural,
  on_timeout: text,
  on_disconnect: text,
  reconnect_ms: natural,
  latency_model: text,
  latency_us: optional(natural),
  latency_factor: optional(amount),
  on_node_down: text
})

export const Rules = record({
  request: text,
  select: text,
  on_overrun: text,
  estimate: text,
  estimate_missing: text
})

export const Scenario = record({ name: text, digest: text, rules: Rules })

export const NodeGroup = record({ name: text, first: natural, last: natural, capacity: amounts })

export const Platform = record({ node_count: natural, groups: listOf(NodeGroup) })

export const Welcome = record({
  version: text,
  server: Program,
  granted: Granted,
  ask: text,
  wants: listOf(text),
  token: text,
  resumed: truth,
  seed: natural,
  limits: Limits,
  policy: Policy,
  scenario: Scenario,
  platform: Platform
})

export const ChunkGroup = record({ chunks: natural, per_chunk: amounts, exclusive: truth })

export const Job = record({
  job: natural,
  name: text,
  submit_us: natural,
  walltime_us: optional(natural),
  request: listOf(ChunkGroup),
  user: optional(text),
  group: optional(text),
  queue: optional(text),
  partition: optional(text),
  attributes: optional(anyMap)
})

/** What each kind of event says beside `kind`, which every one of them has. */
export const Events = {
  'session.start': record({ kind: text, at_us: natural }),
  'job.submitted': record({ kind: text, at_us: natural, job: Job }),
  'job.started': record({ kind: text, at_us: natural, job: natural, allocation }),
  'job.ended': record({ kind: text, at_us: natural, job: natural, status: text }),
  'node.down': record({ kind: text, at_us: natural, nodes: listOf(range) }),
  'node.up': record({ kind: text, at_us: natural, nodes: listOf(range) }),
  'timer.fired': record({ kind: text, at_us: natural, timer: natural }),
  'workload.exhausted': record({ kind: text, at_us: natural })
}

const unknownEvent = record({ kind: text, at_us: natural })

/** @type {Check<Event>} */
const event = (value, path) => {
  const kind = anyMap(value, path).kind
  const known =
    typeof kind === 'string' && Object.hasOwn(Events, kind)
      ? Events[/** @type {keyof typeof Events} */ (kind)]
      : unknownEvent
  return /** @type {Event} */ (/** @type {Check<unknown>} */ (known)(value, path))
}

export const Outcome = record({
  id: natural,
  status: text,
  code: optional(text),
  message: optional(text),
  allocation: optional(allocation),
  job: optional(natural),
  at_us: optional(natural)
})

export const RunningJob = record({ job: Job, start_us: natural, allocation })

export const Timer = record({ timer: natural, at_us: natural })

export const State = record({
  pending: listOf(Job),
  held: listOf(natural),
  running: listOf(RunningJob),
  nodes: listOf(nodeRun),
  timers: listOf(Timer),
  exhausted: truth
})

export const DecisionRequest = record({
  now_us: natural,
  attempt: natural,
  events: listOf(event),
  outcomes: listOf(Outcome),
  state_version: natural,
  state: optional(State),
  state_digest: optional(text),
  deadline_ms: optional(natural)
})

export const StateSnapshot = record({ now_us: natural, state_version: natural, state: State })

export const ProgressAck = record({ deadline_ms: natural })

export const Stats = record({
  submitted: natural,
  completed: natural,
  failed: natural,
  timed_out: natural,
  killed: natural,
  rejected: natural,
  requeues: natural
})

export const SessionEnd = record({
  reason: text,
  now_us: natural,
  outcomes: listOf(Outcome),
  stats: Stats
})

export const ErrorReport = record({
  code: text,
  message: text,
  fatal: truth,
  path: optional(text),
  supported: optional(listOf(text))
})

/** An envelope; `session`, `epoch` and `seq` are absent where an error is about no session. */
export const Envelope = record({
  v: natural,
  type: text,
  session: optional(text),
  epoch: optional(natural),
  seq: optional(natural),
  body: anyMap
})

/**
 * @typedef {ReturnType<typeof Welcome>} Welcome
 * @typedef {ReturnType<typeof Limits>} Limits
 * @typedef {ReturnType<typeof Platform>} Platform
 * @typedef {ReturnType<typeof Job>} JobDescription
 * @typedef {ReturnType<typeof ChunkGroup>} ChunkGroup
 * @typedef {ReturnType<typeof State>} State
 * @typedef {ReturnType<typeof Outcome>} Outcome
 * @typedef {ReturnType<typeof DecisionRequest>} DecisionRequest
 * @typedef {ReturnType<typeof StateSnapshot>} StateSnapshot
 * @typedef {ReturnType<typeof SessionEnd>} SessionEnd
 * @typedef {ReturnType<typeof ErrorReport>} ErrorReport
 * @typedef {ReturnType<typeof Envelope>} Envelope
 * @typedef {[first: number, last: number, chunks: number]} Span
 */

/**
 * @template {keyof typeof Events} K
 * @typedef {Omit<ReturnType<(typeof Events)[K]>, 'kind'> & {kind: K}} EventOf
 */

/**
 * @typedef {EventOf<'session.start'> | EventOf<'job.submitted'> | EventOf<'job.started'>
 *   | EventOf<'job.ended'> | EventOf<'node.down'> | EventOf<'node.up'> | EventOf<'timer.fired'>
 *   | EventOf<'workload.exhausted'>} Event
 */

/**
 * What the dispatcher writes.
 * @typedef {{id: number, kind: 'start', job: number, allocation: Span[][]}
 *   | {id: number, kind: 'reject', job: number, reason?: string}
 *   | {id: number, kind: 'kill', job: number}
 *   | {id: number, kind: 'requeue', job: number}
 *   | {id: number, kind: 'hold', job: number, reason?: string}
 *   | {id: number, kind: 'release', job: number}
 *   | {id: number, kind: 'wake', timer: number, at_us: number}
 *   | {id: number, kind: 'wake.cancel', timer: number}
 *   | {id: number, kind: 'annotate', job: number, expected_start_us?: number, reason?: string}
 *   | {id: number, kind: 'stop', reason?: string}} Decision
 */
