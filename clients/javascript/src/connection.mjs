// One session's socket: a message out, its answer in.

import { Dealer } from 'zeromq'
import { decode, encode } from './codec.mjs'
import { ConnectionLost, ProtocolError, ServerRefused, WrongUsage } from './errors.mjs'
import { Envelope, ErrorReport } from './messages.mjs'

/** @typedef {import('./codec.mjs').Fields} Fields */

/** What has arrived is read before a lost connection counts, ms. */
const GRACE_MS = 200

/** @typedef {{type: string, session: string, epoch: number, seq: number, body: Fields}} Message */

export class Connection {
  #socket
  #endpoint
  #patienceMs
  /** `session` and `epoch` of the last welcome. @type {Fields} */
  #ids = {}
  /** The seq of the welcome, then of each request. @type {number | undefined} */
  #outstanding
  /** @type {(error: Error) => void} */
  #giveUp = () => {}
  #closed = false
  /** @type {Error | undefined} */
  #lost

  /**
   * @param {string} endpoint
   * @param {number} patienceMs how long a server may take to answer the hello
   */
  constructor(endpoint, patienceMs) {
    this.#endpoint = endpoint
    this.#patienceMs = patienceMs
    this.#socket = new Dealer({ linger: 1000, sendTimeout: patienceMs })
    this.#socket.events.on('disconnect', () => {
      setTimeout(() => this.#lose(), GRACE_MS).unref()
    })
    try {
      this.#socket.connect(endpoint)
    } catch {
      this.close()
      throw new WrongUsage(
        `'${endpoint}' is no endpoint to connect to; it looks like tcp://127.0.0.1:5555`
      )
    }
  }

  close() {
    if (this.#closed) return
    this.#closed = true
    this.#socket.close()
  }

  /**
   * @param {Fields} body
   * @returns {Promise<Message>} the welcome
   */
  async hello(body) {
    const told = new ConnectionLost(
      `no server answered at ${this.#endpoint} within ${this.#patienceMs / 1000} s`
    )
    const timer = setTimeout(() => this.#giveUp(told), this.#patienceMs)
    try {
      const welcome = await this.ask('hello', body, 'welcome')
      this.#ids = { session: welcome.session, epoch: welcome.epoch }
      this.#outstanding = welcome.seq
      return welcome
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Sends a message and returns the server's answer.
   * @param {string} type
   * @param {Fields} body
   * @param {...string} due
   * @returns {Promise<Message>}
   * @throws {ConnectionLost} none came
   * @throws {ServerRefused} it was an error, or something that is not the protocol
   */
  ask(type, body, ...due) {
    return this.exchange(type, this.frame(type, body), ...due)
  }

  /**
   * Returns the bytes of a message that answers what is outstanding.
   * @param {string} type
   * @param {Fields} body
   */
  frame(type, body) {
    return encode({ v: 1, type, ...this.#ids, re: this.#outstanding, body })
  }

  /**
   * @param {string} type
   * @param {Uint8Array} frame
   * @param {...string} due
   * @returns {Promise<Message>}
   */
  async exchange(type, frame, ...due) {
    await this.#socket.send([Buffer.alloc(0), frame])
    const answer = read(await this.#receive())
    if (!due.includes(answer.type)) {
      throw foreign(`the answer to ${type} is ${answer.type}`)
    }
    if (answer.type === 'decision.request') this.#outstanding = answer.seq
    return answer
  }

  /** Leaves a session that cannot be gone on with, so that the server need not wait. */
  async leave() {
    try {
      await this.ask('bye', {}, 'session.end')
    } catch {
      // The reason for leaving is the one to be told.
    }
  }

  /** @returns {Promise<Uint8Array>} */
  #receive() {
    // One promise a message: racing each against one that lasts would keep them all in memory.
    return new Promise((resolve, reject) => {
      this.#giveUp = reject
      this.#socket.receive().then((frames) => resolve(frames[frames.length - 1]), reject)
      if (this.#lost !== undefined) reject(this.#lost)
    })
  }

  #lose() {
    // Before the welcome there is nothing to lose: the socket connects again by itself.
    if (this.#outstanding === undefined) return
    this.#lost = new ConnectionLost(`the server at ${this.#endpoint} is gone`)
    this.#giveUp(this.#lost)
  }
}

/** @param {string} what */
export function foreign(what) {
  return new ServerRefused(`the server does not speak the protocol: ${what}`)
}

/**
 * @param {Uint8Array} frame
 * @returns {Message}
 */
function read(frame) {
  try {
    const envelope = Envelope(decode(frame), '')
    const { v, type, session, epoch, seq, body } = envelope
    if (v !== 1) throw new ProtocolError(`an envelope of version ${v}`)
    if (type === 'error') throw refused(ErrorReport(body, 'body'))
    if (typeof session !== 'string' || typeof epoch !== 'number' || typeof seq !== 'number') {
      throw new ProtocolError(`a ${type} without session, epoch or seq`)
    }
    return { type, session, epoch, seq, body }
  } catch (error) {
    throw error instanceof ProtocolError ? foreign(error.message) : error
  }
}

/** @param {import('./messages.mjs').ErrorReport} error */
function refused({ code, message, fatal, path, supported }) {
  const where = path ? ` (${path})` : ''
  const instead = supported?.length ? `; expected: ${supported.join(', ')}` : ''
  const line = `the server says ${code}: ${message}${where}${instead}`.replace(/\s+/g, ' ')
  return new ServerRefused(line, { code, fatal })
}
