// A dispatcher's side of a session, over as many connections as it takes.

import { Connection, foreign } from './connection.mjs'
import { ConnectionLost, Drift, ProtocolError, ServerRefused, WrongUsage } from './errors.mjs'
import { DecisionRequest, SessionEnd, StateSnapshot, Welcome } from './messages.mjs'
import { TicketFile } from './ticket.mjs'
import { View } from './view.mjs'

/** @typedef {import('./view.mjs').Sent} Sent */
/** @typedef {import('./messages.mjs').Limits} Limits */
/** @typedef {import('./messages.mjs').Outcome} Outcome */
/** @typedef {import('./connection.mjs').Message} Message */
/** @typedef {ReturnType<typeof DecisionRequest>} Request */

/**
 * Who decides; a function of the view does as well.
 * @typedef {object} Dispatcher
 * @property {(view: View) => void | Promise<void>} decide starts, rejects or kills jobs
 * @property {(view: View) => void} [begin] a session begins or is taken up; there are no jobs yet
 * @property {string} [name] what it is called in the hello
 * @property {boolean} [actionable] it does nothing at instants at which no pending job could start:
 *   it is then asked at fewer of them, and the schedule is the same
 */

/**
 * @typedef {object} Options
 * @property {string} [sessionFile] keeps what it takes to go on after a crash; if it is there, goes on
 * @property {string} [scenario] which, where a server offers several
 * @property {number} [patienceMs] how long a server may take to appear; a minute if nothing is said
 */

const VERSION = '1.0'
const NEXT = ['decision.request', 'session.end']

/**
 * Decides for a server until its run is over; returns the body of its last message.
 * @param {Dispatcher | ((view: View) => void | Promise<void>)} dispatcher
 * @param {string} [endpoint] where the server listens; else `PARLEY_ENDPOINT` says it
 * @param {Options} [options]
 * @returns {Promise<ReturnType<typeof SessionEnd>>}
 * @throws {ConnectionLost} the server did not appear, or went away
 * @throws {ServerRefused} the server sent an error, or something that is not the protocol
 * @throws {WrongUsage} no endpoint is known, or it is none
 */
export async function serve(dispatcher, endpoint, options = {}) {
  const where = endpoint || process.env.PARLEY_ENDPOINT
  if (!where) {
    throw new WrongUsage(
      'where is the server? give --connect ENDPOINT, or set PARLEY_ENDPOINT (parley run sets it)'
    )
  }
  const decider =
    typeof dispatcher === 'function' ? { decide: dispatcher, name: dispatcher.name } : dispatcher
  const file = new TicketFile(options.sessionFile)
  const session = new Session(decider, file, options.scenario)
  for (;;) {
    const connection = new Connection(where, options.patienceMs ?? 60_000)
    try {
      const end = await session.converse(connection)
      file.forget()
      return end
    } catch (error) {
      if (error instanceof ConnectionLost && session.waitedFor) continue
      if (error instanceof ServerRefused && error.code === 'session.over') file.forget()
      throw error instanceof ProtocolError ? foreign(error.message) : error
    } finally {
      connection.close()
    }
  }
}

class Session {
  #dispatcher
  #file
  #scenario
  #resume

  /**
   * @param {Dispatcher} dispatcher
   * @param {TicketFile} file
   * @param {string} [scenario]
   */
  constructor(dispatcher, file, scenario) {
    this.#dispatcher = dispatcher
    this.#file = file
    this.#scenario = scenario
    this.#resume = file.find(process.env)
    /** Whether the server holds the session for whoever resumes it. */
    this.waitedFor = false
  }

  /** @param {Connection} connection */
  async converse(connection) {
    this.waitedFor = false
    const answer = await connection.hello(this.#hello())
    const welcome = Welcome(answer.body, 'body')
    if (welcome.version !== VERSION) throw foreign(`version ${welcome.version} was chosen`)
    this.#resume = { session: answer.session, token: welcome.token }
    this.waitedFor = welcome.policy.on_disconnect === 'wait'
    try {
      this.#file.keep(this.#resume)
      return await this.#decide(connection, welcome)
    } catch (error) {
      const over =
        error instanceof ConnectionLost || (error instanceof ServerRefused && error.fatal)
      if (!over) await connection.leave()
      throw error
    }
  }

  #hello() {
    return {
      versions: [VERSION],
      client: {
        name: this.#dispatcher.name || 'javascript',
        version: '0.1.0',
        language: 'javascript'
      },
      capabilities: { state: 'events' },
      ask: this.#dispatcher.actionable ? 'actionable' : 'always',
      scenario: this.#scenario,
      resume: this.#resume
    }
  }

  /**
   * @param {Connection} connection
   * @param {ReturnType<typeof Welcome>} welcome
   */
  async #decide(connection, welcome) {
    const view = new View(welcome, asides(connection))
    this.#dispatcher.begin?.(view)
    const reply = new Reply(connection, welcome.limits)
    let answer = await connection.ask('ready', {}, ...NEXT)
    while (answer.type === 'decision.request') {
      const began = performance.now()
      const request = DecisionRequest(answer.body, 'body')
      await follow(connection, view, reply.withKeptBack(request))
      const decided = this.#dispatcher.decide(view)
      if (decided !== undefined) await decided
      if (view.leaving) {
        answer = await connection.ask('bye', {}, 'session.end')
      } else {
        const frame = reply.frame(view.sent, request, began)
        answer = await connection.exchange('decision.reply', frame, ...NEXT)
      }
    }
    return SessionEnd(answer.body, 'body')
  }
}

/** @param {Connection} connection */
function asides(connection) {
  return {
    ping: async () => {
      await connection.ask('ping', {}, 'pong')
    },
    progress: async (/** @type {string | undefined} */ note) => {
      await connection.ask('progress', { note }, 'progress.ack')
    }
  }
}

/**
 * Takes in a request; where the mirror turns out to have drifted, asks for the state.
 * @param {Connection} connection
 * @param {View} view
 * @param {Request} request
 */
async function follow(connection, view, request) {
  let drifted = false
  try {
    view.update(request)
    drifted = typeof request.state_digest === 'string' && request.state_digest !== view.digest()
  } catch (error) {
    if (!(error instanceof Drift)) throw error
    drifted = true
  }
  if (drifted) {
    const answer = await connection.ask('state.request', {}, 'state.snapshot')
    view.load(StateSnapshot(answer.body, 'body'))
  }
}

/** Puts decisions into replies, as many as the server takes. */
class Reply {
  #connection
  #limits
  /** @type {Sent[]} */
  #keptBack = []

  /**
   * @param {Connection} connection
   * @param {Limits} limits
   */
  constructor(connection, limits) {
    this.#connection = connection
    this.#limits = limits
  }

  /**
   * Returns a request which also says that what was kept back has not happened.
   * @param {Request} request
   * @returns {Request}
   */
  withKeptBack(request) {
    if (this.#keptBack.length === 0) return request
    const { outcomes } = request
    const untold = this.#keptBack.map(({ decision }) => ({
      id: decision.id,
      status: 'rejected',
      code: 'limit.decisions',
      message: undefined,
      allocation: undefined,
      job: undefined,
      at_us: outcomes[0]?.at_us
    }))
    return { ...request, outcomes: [...outcomes, ...untold] }
  }

  /**
   * @param {Sent[]} all
   * @param {Request} request
   * @param {number} began
   */
  frame(all, request, began) {
    for (let count = this.#within(all); ; count >>= 1) {
      const frame = this.#connection.frame('decision.reply', {
        decisions: all.slice(0, count).map((sent) => sent.decision),
        state_version: request.state_version,
        compute_us: Math.round((performance.now() - began) * 1000)
      })
      if (frame.length <= this.#limits.message_bytes || count === 0) {
        this.#keptBack = all.slice(count)
        return frame
      }
    }
  }

  /**
   * How many decisions the limits on their number and on maps and arrays leave room for.
   * @param {Sent[]} all
   */
  #within(all) {
    const most = Math.min(this.#limits.decisions, this.#limits.array_items, all.length)
    let containers = 3 // the message, its body, the list
    for (let count = 0; count < most; count++) {
      const { decision } = all[count]
      containers += decision.kind === 'start' ? 3 + decision.allocation[0].length : 1
      if (containers > this.#limits.containers) return count
    }
    return most
  }
}
