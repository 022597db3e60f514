#!/usr/bin/env node
// A strict first-come-first-served dispatcher for the Parley dispatch protocol 1.0.
//
// usage: dispatcher.mjs [ENDPOINT]        (or PARLEY_ENDPOINT in the environment)
//
// The job that has waited longest starts on the lowest-numbered nodes that hold it; the first that
// does not fit stops the round.  The machine and the queue are kept in a mirror, begun from the
// state of the first request and led on by events and outcomes.  With PARLEY_SESSION and
// PARLEY_TOKEN set, that session is resumed.  Exit status: 0 if the run was completed, else 1.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { decode, encode } from '@msgpack/msgpack'
import { Dealer } from 'zeromq'

const VERSIONS = ['1.0']
const CLIENT = { name: 'fcfs.mjs', version: '1.0.0', language: 'javascript' }
const NOTICE_MS = 5000
const LOST_GRACE_MS = 1000 // messages already received are read before a lost connection counts

/** What ends this program with a message for whoever runs it, and status 1. */
class Failure extends Error {}

const warn = (text) => process.stderr.write(`fcfs: ${text}\n`)

// ---------------------------------------------------------------------------------------- mirror

/** The nodes: what of each is taken, and by how many chunks. */
class Machine {
  constructor(platform) {
    const names = new Set(platform.groups.flatMap((group) => Object.keys(group.capacity)))
    // Order by code points, which is that of UTF-8 bytes (and not that of UTF-16 code units).
    this.resources = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    this.nodes = []
    for (const group of platform.groups) {
      const capacity = this.resources.map((name) => group.capacity[name] ?? 0)
      for (let n = group.first; n <= group.last; n++) this.nodes[n] = { capacity }
    }
    this.clear()
  }

  clear() {
    for (const node of this.nodes) {
      node.up = true
      node.used = node.capacity.map(() => 0)
      node.chunks = 0
      node.exclusive = false
    }
  }

  setUp(ranges, up) {
    for (const [first, last] of ranges) {
      for (let n = first; n <= last; n++) this.nodes[n].up = up
    }
  }

  /** What a chunk asks of each resource, in the order of `resources`; null if it can lie nowhere. */
  #need(group) {
    const asked = Object.entries(group.per_chunk)
    if (asked.some(([name, amount]) => amount > 0 && !this.resources.includes(name))) return null
    return this.resources.map((name) => group.per_chunk[name] ?? 0)
  }

  /** How many chunks (of at most `most`) have room on a node. */
  #room(node, need, exclusive, most) {
    if (!node.up || node.exclusive) return 0
    if (exclusive && node.chunks > 0) return 0
    let room = exclusive ? Math.min(1, most) : most
    for (let r = 0; r < need.length && room > 0; r++) {
      if (need[r] > 0) room = Math.min(room, Math.floor((node.capacity[r] - node.used[r]) / need[r]))
    }
    return room
  }

  /** Merged spans for one group of chunks on the lowest-numbered nodes; null if it does not fit. */
  #placeGroup(group) {
    const need = this.#need(group)
    if (need === null) return null
    const spans = []
    let left = group.chunks
    for (let n = 0; n < this.nodes.length && left > 0; n++) {
      const here = this.#room(this.nodes[n], need, group.exclusive, left)
      if (here === 0) continue
      const last = spans.at(-1)
      if (last && last[1] === n - 1 && last[2] === here) last[1] = n
      else spans.push([n, n, here])
      left -= here
    }
    return left === 0 ? spans : null
  }

  /** Places a request and takes its nodes; its allocation, or null if it does not fit now. */
  place(request) {
    const allocation = []
    for (const group of request) {
      const spans = this.#placeGroup(group)
      if (spans === null) {
        this.release(request, allocation)
        return null
      }
      this.#change([group], [spans], 1)
      allocation.push(spans)
    }
    return allocation
  }

  take(request, allocation) {
    this.#change(request, allocation, 1)
  }

  release(request, allocation) {
    this.#change(request, allocation, -1)
  }

  #change(request, allocation, sign) {
    allocation.forEach((spans, g) => {
      const need = this.#need(request[g]) ?? []
      for (const [first, last, chunks] of spans) {
        for (let n = first; n <= last; n++) {
          const node = this.nodes[n]
          node.chunks += sign * chunks
          if (request[g].exclusive) node.exclusive = sign > 0
          need.forEach((amount, r) => { node.used[r] += sign * chunks * amount })
        }
      }
    })
  }

  /** Free amount of a resource on all nodes in service together. */
  free(r) {
    let sum = 0n // of many nodes, it may pass what a double holds
    for (const node of this.nodes) {
      if (node.up && !node.exclusive) sum += BigInt(node.capacity[r] - node.used[r])
    }
    return sum
  }

  /** Merged ranges of the nodes out of service. */
  down() {
    const ranges = []
    this.nodes.forEach((node, n) => {
      if (node.up) return
      if (ranges.length > 0 && ranges.at(-1)[1] === n - 1) ranges.at(-1)[1] = n
      else ranges.push([n, n])
    })
    return ranges
  }
}

/** Pending jobs in their places: by submission, then number. */
class Queue {
  #jobs = []

  static #before(a, b) {
    return a.submit_us !== b.submit_us ? a.submit_us < b.submit_us : a.job < b.job
  }

  /** Where the job stands, or would. */
  #place(job) {
    let low = 0
    let high = this.#jobs.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (Queue.#before(this.#jobs[middle], job)) low = middle + 1
      else high = middle
    }
    return low
  }

  add(job) {
    this.#jobs.splice(this.#place(job), 0, job)
  }

  remove(job) {
    const at = this.#place(job)
    if (this.#jobs[at]?.job === job.job) this.#jobs.splice(at, 1)
  }

  find(number) {
    return this.#jobs.find((job) => job.job === number)
  }

  [Symbol.iterator]() {
    return this.#jobs.values()
  }
}

/** The state as this client knows it.  Any contradiction in what it is told sets `doubtful`. */
class Mirror {
  constructor(platform) {
    this.machine = new Machine(platform)
    this.planned = new Map() // decision id -> {job, allocation}, sent and not yet told of
    this.lastId = 0
    this.nowUs = 0
    this.refused = 0
    this.started = 0
    this.#empty()
  }

  #empty() {
    this.pending = new Queue()
    this.held = new Set()
    this.running = new Map() // job number -> {job, start_us, allocation}
    this.timers = new Map()
    this.planned.clear()
    this.doubtful = null
  }

  /** Forgets everything and begins again from a state. */
  load(state, nowUs) {
    this.machine.clear()
    this.#empty()
    for (const [first, last, , service] of state.nodes) {
      this.machine.setUp([[first, last]], service === 'up')
    }
    for (const job of state.pending) this.pending.add(job)
    for (const number of state.held) this.held.add(number)
    for (const run of state.running) {
      this.running.set(run.job.job, run)
      this.machine.take(run.job.request, run.allocation)
    }
    for (const timer of state.timers) this.timers.set(timer.timer, timer.at_us)
    this.nowUs = nowUs
  }

  /**
   * Follows a request.  Decisions took effect before all of its events where they take no time,
   * and else at their `at_us`, behind the other events of that instant; the end of a job that one
   * of them started comes after it in any case.
   */
  follow({ now_us: nowUs, events, outcomes, state }) {
    if (state != null) return this.load(state, nowUs) // it shows what events and outcomes made
    const effectUs = outcomes[0]?.at_us ?? -1
    const mine = new Set([...this.planned.values()].map((plan) => plan.job.job))
    let settled = false
    const settle = () => {
      if (!settled) this.#settle(outcomes)
      settled = true
    }
    for (const event of events) {
      if (event.at_us > effectUs || effectUs < 0) settle()
      else if (event.kind === 'job.ended' && mine.has(event.job)) settle()
      this.#happen(event)
    }
    settle()
    this.nowUs = nowUs
  }

  /** Carries out in the mirror what became of the plan. */
  #settle(outcomes) {
    for (const outcome of outcomes) {
      const plan = this.planned.get(outcome.id)
      if (plan === undefined) continue
      this.planned.delete(outcome.id)
      if (outcome.status === 'applied') {
        this.#run(plan.job, outcome.at_us ?? this.nowUs, plan.allocation)
        this.started++
      } else {
        this.machine.release(plan.job.request, plan.allocation)
        this.refused++
        this.doubtful = `start of job ${plan.job.job} was refused as ${outcome.code}: ${outcome.message}`
      }
    }
    if (this.planned.size > 0) this.doubtful = `${this.planned.size} decisions have no outcome`
  }

  #run(job, startUs, allocation) {
    this.pending.remove(job)
    this.running.set(job.job, { job, start_us: startUs, allocation })
  }

  #happen(event) {
    switch (event.kind) {
      case 'job.submitted':
        this.pending.add(event.job)
        break
      case 'job.started': { // by another than this client
        const job = this.pending.find(event.job)
        if (job === undefined) {
          this.doubtful = `job ${event.job} was started and is not known to be pending`
          break
        }
        this.machine.take(job.request, event.allocation)
        this.#run(job, event.at_us, event.allocation)
        break
      }
      case 'job.ended': {
        const run = this.running.get(event.job)
        if (run === undefined) {
          this.doubtful = `job ${event.job} has ended and is not known to be running`
          break
        }
        this.running.delete(event.job)
        this.machine.release(run.job.request, run.allocation)
        if (event.status === 'requeued') this.pending.add(run.job)
        break
      }
      case 'node.down':
        this.machine.setUp(event.nodes, false)
        break
      case 'node.up':
        this.machine.setUp(event.nodes, true)
        break
      case 'timer.fired':
        this.timers.delete(event.timer)
        break
      default: // session.start, workload.exhausted, and kinds of later versions
    }
  }

  /** First come, first served: at most `most` starts, whose nodes are taken from here on. */
  plan(most) {
    const decisions = []
    for (const job of this.pending) {
      if (this.held.has(job.job)) continue // nobody waits for a job that may not start
      if (decisions.length >= most) break
      const allocation = this.machine.place(job.request)
      if (allocation === null) break
      const id = ++this.lastId
      this.planned.set(id, { job, allocation })
      decisions.push({ id, kind: 'start', job: job.job, allocation })
    }
    return decisions
  }

  /** Takes planned decisions back that are not going to be sent. */
  unplan(decisions) {
    for (const { id } of decisions) {
      const { job, allocation } = this.planned.get(id)
      this.planned.delete(id)
      this.machine.release(job.request, allocation)
    }
  }

  digest() {
    const ascending = (numbers) => [...numbers].sort((a, b) => a - b)
    const written = (allocation) => allocation
      .map((spans) => merged(spans).map(([a, b, n]) => `${a}-${b}*${n}`).join(','))
      .join(';')
    const lines = [`now ${this.nowUs}`]
    for (const number of ascending([...this.pending].map((job) => job.job))) lines.push(`pending ${number}`)
    for (const number of ascending(this.held)) lines.push(`held ${number}`)
    for (const number of ascending(this.running.keys())) {
      const run = this.running.get(number)
      lines.push(`running ${number} ${run.start_us} ${written(run.allocation)}`)
    }
    this.machine.resources.forEach((name, r) => lines.push(`free ${name} ${this.machine.free(r)}`))
    for (const [first, last] of this.machine.down()) lines.push(`down ${first}-${last}`)
    for (const number of ascending(this.timers.keys())) lines.push(`timer ${number} ${this.timers.get(number)}`)
    return createHash('sha256').update(lines.map((line) => `${line}\n`).join('')).digest('hex')
  }
}

function merged(spans) {
  const result = []
  for (const [first, last, chunks] of spans) {
    const before = result.at(-1)
    if (before && before[1] === first - 1 && before[2] === chunks) before[1] = last
    else result.push([first, last, chunks])
  }
  return result
}

// ------------------------------------------------------------------------------------------ wire

/** One session over a DEALER socket: each message waits for its answer. */
class Connection {
  #socket = new Dealer({ linger: 0 })
  #ids = {} // `session` and `epoch` of the welcome
  #outstanding = 0 // the seq of the welcome, then of each request

  constructor(endpoint) {
    this.endpoint = endpoint
    this.#socket.connect(endpoint)
  }

  /** Comes back, and fails, only when the server's end of the connection has gone. */
  async watch() {
    for await (const event of this.#socket.events) {
      if (event.type === 'disconnect') {
        await sleep(LOST_GRACE_MS)
        throw new Failure(`the connection to ${this.endpoint} was lost`)
      }
    }
    return new Promise(() => {})
  }

  async hello(body) {
    const welcome = await this.#exchange({ v: 1, type: 'hello', body }, ['welcome'])
    this.#ids = { session: welcome.session, epoch: welcome.epoch }
    this.#outstanding = welcome.seq
    this.welcomed = true
    return welcome
  }

  pack(type, body) {
    return encode({ v: 1, type, ...this.#ids, re: this.#outstanding, body })
  }

  async ask(type, body, answers) {
    return this.exchange(type, this.pack(type, body), answers)
  }

  async exchange(type, bytes, answers) {
    const message = await this.#send(type, bytes, answers)
    if (message.type === 'decision.request') this.#outstanding = message.seq
    return message
  }

  #exchange(message, answers) {
    return this.#send(message.type, encode(message), answers)
  }

  async #send(type, bytes, answers) {
    await this.#socket.send([Buffer.alloc(0), bytes])
    const frames = await this.#socket.receive()
    const message = read(frames.at(-1))
    if (answers.includes(message.type)) return message
    if (message.type === 'error') {
      const { code, message: text, fatal, path, supported } = message.body
      throw new Failure([
        fatal ? `the server has given up the session: ${code}` : `the server refused ${type}: ${code}`,
        text,
        ...(path != null ? [`field ${path}`] : []),
        ...(supported != null ? [`would do: ${supported.join(', ')}`] : [])
      ].join('; '))
    }
    throw new Failure(`the server answered ${type} by ${message.type}`)
  }

  close() {
    this.#socket.close()
  }
}

function read(frame) {
  try {
    const message = frame[0] === 0x7b ? JSON.parse(frame.toString('utf8')) : decode(frame)
    if (message.v !== 1 || typeof message.type !== 'string' || typeof message.body !== 'object') {
      throw new Error('no envelope of version 1')
    }
    return message
  } catch (error) {
    throw new Failure(`a message of the server cannot be read: ${error.message}`)
  }
}

// --------------------------------------------------------------------------------------- session

const NEXT = ['decision.request', 'session.end']

async function converse(connection, resume) {
  const { body: welcome } = await connection.hello({
    versions: VERSIONS,
    client: CLIENT,
    capabilities: { state: 'events', decisions: 'each', submit: false },
    ask: 'actionable',
    ...(resume ? { resume } : {})
  })
  if (!VERSIONS.includes(welcome.version)) throw new Failure(`version ${welcome.version} was chosen`)

  const { limits } = welcome
  const mirror = new Mirror(welcome.platform)
  const count = { requests: 0, digests: 0, differing: 0, snapshots: 0 }

  const resync = async (why) => {
    warn(`${why}; asking for the state`)
    count.snapshots++
    const { body } = await connection.ask('state.request', {}, ['state.snapshot'])
    mirror.load(body.state, body.now_us)
  }

  let message = await connection.ask('ready', {}, NEXT)
  while (message.type === 'decision.request') {
    const began = process.hrtime.bigint()
    const request = message.body
    count.requests++
    mirror.follow(request)
    if (request.state_digest != null) {
      count.digests++
      if (mirror.digest() !== request.state_digest) {
        count.differing++
        await resync(`at ${request.now_us} us the mirror differs from the state`)
        if (mirror.digest() !== request.state_digest) warn('the digest is not even that of the state')
      }
    } else if (mirror.doubtful !== null) {
      await resync(mirror.doubtful)
    }
    mirror.doubtful = null
    message = await reply(connection, mirror, limits, request, began)
  }

  const end = message.body
  const told = Object.entries(end.stats).map(([name, number]) => `${name} ${number}`).join(', ')
  warn(`${end.reason} at ${end.now_us} us: ${told}`)
  warn(`${count.requests} requests, ${mirror.refused} refusals, ${count.digests} digests of which ` +
    `${count.differing} differ, ${count.snapshots} states asked for`)
  if (end.reason !== 'completed') throw new Failure(`the run is not complete: ${end.reason}`)
}

async function reply(connection, mirror, limits, request, began) {
  const most = Math.min(limits.decisions, limits.array_items)
  const decisions = mirror.plan(most)
  for (;;) {
    const computeUs = Number((process.hrtime.bigint() - began) / 1000n)
    const body = { decisions, state_version: request.state_version, compute_us: computeUs }
    const bytes = connection.pack('decision.reply', body)
    if (bytes.length <= limits.message_bytes || decisions.length === 0) {
      return connection.exchange('decision.reply', bytes, NEXT)
    }
    mirror.unplan(decisions.splice(decisions.length >> 1)) // the rest comes with the next reply
  }
}

async function main() {
  const endpoint = process.env.PARLEY_ENDPOINT || process.argv[2]
  if (!endpoint) throw new Failure('no endpoint: set PARLEY_ENDPOINT, or give it as the argument')
  const { PARLEY_SESSION: session, PARLEY_TOKEN: token } = process.env
  const resume = session && token ? { session, token } : null

  const connection = new Connection(endpoint)
  setTimeout(() => connection.welcomed || warn(`nobody answers at ${endpoint} yet`), NOTICE_MS).unref()
  try {
    await Promise.race([converse(connection, resume), connection.watch()])
  } finally {
    connection.close()
  }
}

try {
  await main()
  process.exit(0)
} catch (error) {
  warn(error instanceof Failure ? error.message : error.stack)
  process.exit(1)
}
