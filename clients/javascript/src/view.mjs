// What a dispatcher sees when it is asked, and the hands with which it decides.

import { wellFormed } from './codec.mjs'
import { ClientError, Drift } from './errors.mjs'
import { merged } from './job.mjs'
import { Mirror } from './mirror.mjs'

/** @typedef {import('./job.mjs').Job} Job */
/** @typedef {import('./job.mjs').RunningJob} RunningJob */
/** @typedef {import('./messages.mjs').Span} Span */
/** @typedef {import('./messages.mjs').Event} Event */
/** @typedef {import('./messages.mjs').Decision} Decision */
/** @typedef {import('./messages.mjs').Outcome} Outcome */
/** @typedef {import('./messages.mjs').Welcome} Welcome */
/** @typedef {import('./messages.mjs').State} State */
/** @typedef {import('./messages.mjs').StateSnapshot} StateSnapshot */
/** @typedef {import('./messages.mjs').DecisionRequest} DecisionRequest */
/** @typedef {import('./mirror.mjs').Watcher} Watcher */

/**
 * A decision on its way; what it takes to undo it, and to do it again.
 * @typedef {{decision: Decision, job: Job | null, atUs: number}} Sent
 */

/**
 * What can be said to the server before the reply.
 * @typedef {{ping: () => Promise<void>, progress: (note?: string) => Promise<void>}} Aside
 */

/**
 * The state of the simulation as the dispatcher knows it; times are microseconds since time 0.
 *
 * A decision takes effect here at once, so that the next one sees it; should the server refuse it,
 * it is undone before the next request is shown.
 */
export class View {
  #mirror
  #aside
  #lastTimer = 0

  /**
   * @param {Welcome} welcome
   * @param {Aside} aside
   */
  constructor(welcome, aside) {
    /** The platform, the limits, the seed for random choices, and all else that was agreed. */
    this.welcome = welcome
    this.#aside = aside
    this.#mirror = new Mirror(welcome.platform)
    /** The present instant. */
    this.nowUs = 0
    /** Timers that fired since the last request. @type {number[]} */
    this.fired = []
    /** Numbers of jobs that ended since, be it to be requeued. @type {number[]} */
    this.ended = []
    /** What the server refused of the last decisions. @type {Outcome[]} */
    this.rejected = []
    /** Decided since the last request. @type {Sent[]} */
    this.sent = []
    /** Whether the session is left in the place of the reply. */
    this.leaving = false
  }

  // ------------------------------------------------------------------ looking

  /** Pending jobs by submission, without those that are held. */
  get queue() {
    return this.#mirror.queue
  }

  /** Held jobs by number. @returns {ReadonlyMap<number, Job>} */
  get held() {
    return this.#mirror.held
  }

  /** Running jobs by number, in the order of their start. @returns {ReadonlyMap<number, RunningJob>} */
  get running() {
    return this.#mirror.running
  }

  /** The nodes, to be read only; `fork()` copies them. */
  get nodes() {
    return this.#mirror.cluster
  }

  /** Instants of the timers that wait, by number. @returns {ReadonlyMap<number, number>} */
  get timers() {
    return this.#mirror.timers
  }

  /** Whether the workload holds no further job. */
  get exhausted() {
    return this.#mirror.exhausted
  }

  /**
   * Tells somebody of every change from now on.
   * @param {Watcher} watcher
   */
  watch(watcher) {
    this.#mirror.watchers.push(watcher)
  }

  // ------------------------------------------------------------------ deciding

  /**
   * Where first fit would put the job now, or null; nothing changes.
   * @param {Job} job
   */
  place(job) {
    return this.nodes.firstFit(job.shape, job.chunks)
  }

  /**
   * Starts a pending job on these nodes, or where first fit puts it; false if it does not fit now.
   * @param {Job} job
   * @param {Span[]} [spans]
   */
  start(job, spans) {
    this.#requirePending(job)
    const chosen = spans === undefined ? this.place(job) : merged(spans)
    if (chosen === null) return false
    this.#mirror.run(job, chosen, this.nowUs)
    this.#send({ id: this.sent.length, kind: 'start', job: job.number, allocation: [chosen] }, job)
    return true
  }

  /**
   * Removes a pending job for good.
   * @param {Job} job
   * @param {string} [reason] for whoever reads the dialogue
   */
  reject(job, reason) {
    this.#requirePending(job)
    this.#mirror.leave(job)
    const told = wellFormed(reason)
    this.#send({ id: this.sent.length, kind: 'reject', job: job.number, reason: told }, job)
  }

  /**
   * Ends a running job now; its nodes are free when its end is told.
   * @param {RunningJob} running
   */
  kill({ job }) {
    this.#send({ id: this.sent.length, kind: 'kill', job: job.number }, job)
  }

  /**
   * Takes a running job off its nodes; it is pending again when that is told.
   * @param {RunningJob} running
   */
  requeue({ job }) {
    this.#send({ id: this.sent.length, kind: 'requeue', job: job.number }, job)
  }

  /**
   * Takes a pending job out of the queue until it is released.
   * @param {Job} job
   * @param {string} [reason]
   */
  hold(job, reason) {
    this.#requirePending(job)
    this.#mirror.hold(job)
    const told = wellFormed(reason)
    this.#send({ id: this.sent.length, kind: 'hold', job: job.number, reason: told }, job)
  }

  /**
   * Puts a held job back in its place in the queue.
   * @param {Job} job
   */
  release(job) {
    if (this.held.get(job.number) !== job) throw new ClientError(`${job} is not held`)
    this.#mirror.release(job)
    this.#send({ id: this.sent.length, kind: 'release', job: job.number }, job)
  }

  /**
   * Asks to be asked at an instant after now; returns the timer's number.
   * @param {number} atUs a whole number
   */
  callAt(atUs) {
    requireInstant(atUs)
    const timer = ++this.#lastTimer
    this.#mirror.timers.set(timer, atUs)
    this.#send({ id: this.sent.length, kind: 'wake', timer, at_us: atUs }, null, atUs)
    return timer
  }

  /**
   * Gives a timer up that waits.
   * @param {number} timer
   */
  cancel(timer) {
    const atUs = this.timers.get(timer)
    if (atUs === undefined) throw new ClientError(`no timer ${timer} waits`)
    this.#mirror.timers.delete(timer)
    this.#send({ id: this.sent.length, kind: 'wake.cancel', timer }, null, atUs)
  }

  /**
   * Notes when a pending job is expected to start, or why it waits.
   * @param {Job} job
   * @param {{expectedStartUs?: number, reason?: string}} note
   */
  annotate(job, { expectedStartUs, reason }) {
    if (expectedStartUs !== undefined) requireInstant(expectedStartUs)
    this.#send(
      {
        id: this.sent.length,
        kind: 'annotate',
        job: job.number,
        expected_start_us: expectedStartUs,
        reason: wellFormed(reason)
      },
      job
    )
  }

  /**
   * Ends the whole run here.
   * @param {string} [reason]
   */
  stop(reason) {
    this.#send({ id: this.sent.length, kind: 'stop', reason: wellFormed(reason) }, null)
  }

  /** Leaves the session instead of replying: the run ends with the reason `bye`. */
  leave() {
    this.leaving = true
  }

  /** Asks whether the server is there. */
  ping() {
    return this.#aside.ping()
  }

  /**
   * Asks for more time; due before half of the deadline has passed.
   * @param {string} [note]
   */
  progress(note) {
    return this.#aside.progress(wellFormed(note))
  }

  /** @param {Job} job */
  #requirePending(job) {
    if (!this.queue.has(job)) throw new ClientError(`${job} is not pending`)
  }

  /**
   * @param {Decision} decision
   * @param {Job | null} job
   */
  #send(decision, job, atUs = 0) {
    this.sent.push({ decision, job, atUs })
  }

  // ------------------------------------------------------------------ following the server

  /** The digest of the state as it is known here; O(jobs + nodes). */
  digest() {
    return this.#mirror.digest(this.nowUs)
  }

  /**
   * Takes in a request: outcomes of the last decisions, then events, in order.
   * @param {DecisionRequest} request
   * @throws {Drift} it cannot be true of what is known here; the state is needed
   */
  update(request) {
    const before = this.sent
    const { events, outcomes, state } = request
    this.sent = []
    this.nowUs = request.now_us
    this.fired = []
    this.ended = []
    this.rejected = []
    if (state !== undefined && state !== null) {
      this.rejected = outcomes.filter((outcome) => outcome.status !== 'applied')
      this.#load(state)
      for (const event of events) this.#note(event)
    } else if (outcomes.some((outcome) => isTold(outcome.at_us))) {
      this.#catchUp(before, outcomes, events)
    } else {
      // Backwards: a decision about a job may stand on one before it.
      for (let at = outcomes.length - 1; at >= 0; at--) {
        if (outcomes[at].status !== 'applied') {
          this.#undo(sentAs(before, outcomes[at]), outcomes[at].code ?? '')
          this.rejected.unshift(outcomes[at])
        }
      }
      for (const event of events) this.#follow(event)
    }
  }

  /**
   * Begins anew from a state that was asked for.
   * @param {StateSnapshot} snapshot
   */
  load(snapshot) {
    this.nowUs = snapshot.now_us
    this.#load(snapshot.state)
  }

  /** @param {State} state */
  #load(state) {
    this.#mirror.load(state)
    for (const timer of this.timers.keys()) this.#lastTimer = Math.max(this.#lastTimer, timer)
  }

  /**
   * Takes note of what an event says beyond the state.
   * @param {Event} event
   */
  #note(event) {
    if (event.kind === 'job.ended') this.ended.push(event.job)
    else if (event.kind === 'timer.fired') this.fired.push(event.timer)
  }

  /** @param {Event} event */
  #follow(event) {
    this.#note(event)
    const mirror = this.#mirror
    switch (event.kind) {
      case 'job.submitted':
        mirror.submit(event.job)
        break
      case 'job.ended': {
        const job = mirror.stop(event.job)
        if (event.status === 'requeued') mirror.join(job)
        break
      }
      case 'job.started':
        mirror.startedElsewhere(event.job, event.allocation, event.at_us)
        break
      case 'timer.fired':
        mirror.timers.delete(event.timer)
        break
      case 'node.down':
      case 'node.up':
        for (const [first, last] of event.nodes) {
          mirror.cluster.setUp(first, last, event.kind === 'node.up')
        }
        break
      case 'workload.exhausted':
        mirror.exhausted = true
        break
      default: // the beginning, and what later versions tell
    }
  }

  /**
   * Takes in what happened while decisions were on their way, and then they: until then they hold
   * nothing. They take effect behind the events of their instant, save for the ends that they
   * bring themselves.
   * @param {Sent[]} before
   * @param {Outcome[]} outcomes
   * @param {Event[]} events
   */
  #catchUp(before, outcomes, events) {
    const own = new Set()
    for (const sent of [...before].reverse()) {
      this.#undo(sent, '')
      if (sent.decision.kind === 'start') own.add(sent.decision.job)
    }
    const effectUs = outcomes.reduce((last, { at_us: atUs }) => Math.max(last, atUs ?? 0), 0)
    let settled = false
    for (const event of events) {
      const endsOwn = event.kind === 'job.ended' && own.has(event.job)
      if (!settled && (event.at_us > effectUs || endsOwn)) {
        settled = true
        this.#settle(before, outcomes)
      }
      this.#follow(event)
    }
    if (!settled) this.#settle(before, outcomes)
  }

  /**
   * @param {Sent[]} before
   * @param {Outcome[]} outcomes
   */
  #settle(before, outcomes) {
    for (const outcome of outcomes) {
      if (outcome.status === 'applied') {
        this.#redo(sentAs(before, outcome), outcome.at_us ?? this.nowUs)
      } else {
        this.rejected.push(outcome)
      }
    }
  }

  /**
   * Lets a decision that was undone take effect at an instant.
   * @param {Sent} sent
   * @param {number} atUs
   */
  #redo({ decision, job }, atUs) {
    const mirror = this.#mirror
    switch (decision.kind) {
      case 'start':
        mirror.run(known(job, this.queue.has.bind(this.queue)), decision.allocation[0], atUs)
        break
      case 'reject':
        mirror.leave(known(job, this.queue.has.bind(this.queue)))
        break
      case 'hold':
        mirror.hold(known(job, this.queue.has.bind(this.queue)))
        break
      case 'release':
        mirror.release(known(job, (one) => this.held.get(one.number) === one))
        break
      case 'wake':
        mirror.timers.set(decision.timer, decision.at_us)
        break
      case 'wake.cancel':
        mirror.timers.delete(decision.timer)
        break
      default: // what changes nothing by itself
    }
  }

  /**
   * Takes a decision back that was refused with a code, or has not taken effect yet.
   * @param {Sent} sent
   * @param {string} code
   */
  #undo({ decision, job, atUs }, code) {
    const mirror = this.#mirror
    const gone = code === 'job.unknown' || code === 'job.not_pending'
    switch (decision.kind) {
      case 'start':
        mirror.stop(decision.job)
        if (!gone) mirror.join(known(job))
        break
      case 'hold':
        mirror.held.delete(decision.job)
        if (!gone) mirror.join(known(job))
        break
      case 'reject':
        if (!gone) mirror.join(known(job))
        break
      case 'release':
        mirror.leave(known(job))
        if (!gone) mirror.held.set(decision.job, known(job))
        break
      case 'wake':
        mirror.timers.delete(decision.timer)
        break
      case 'wake.cancel':
        if (code !== 'timer.unknown') mirror.timers.set(decision.timer, atUs)
        break
      default: // what changes nothing by itself
    }
  }
}

/**
 * @param {number | null | undefined} value
 */
function isTold(value) {
  return value !== null && value !== undefined
}

/** @param {number} atUs */
function requireInstant(atUs) {
  if (!Number.isSafeInteger(atUs)) {
    throw new ClientError(`an instant is a whole number of microseconds, not ${atUs}`)
  }
}

/**
 * @param {Job | null} job
 * @param {(job: Job) => boolean} [holds]
 */
function known(job, holds = () => true) {
  if (job === null || !holds(job)) {
    throw new Drift(`a decision about ${job} was applied, which is something else`)
  }
  return job
}

/**
 * @param {Sent[]} before
 * @param {Outcome} outcome
 */
function sentAs(before, outcome) {
  if (outcome.id >= before.length) throw new Drift(`decision ${outcome.id} was not sent`)
  return before[outcome.id]
}
