// What a dispatcher must keep to take its session up again after a crash.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { WrongUsage } from './errors.mjs'

/** @typedef {{session: string, token: string}} Ticket */

/**
 * Where the ticket of a session lies for the time that it is open.
 *
 * A server that starts a dispatcher again hands it the ticket in `PARLEY_SESSION` and
 * `PARLEY_TOKEN`; a dispatcher that is started by others keeps it in a file.
 */
export class TicketFile {
  #path

  /** @param {string} [path] none keeps it in memory only */
  constructor(path) {
    this.#path = path
  }

  /**
   * Returns what to resume, if there is anything.
   * @param {NodeJS.ProcessEnv} environment
   * @returns {Ticket | undefined}
   */
  find({ PARLEY_SESSION: session, PARLEY_TOKEN: token }) {
    if (session && token) return { session, token }
    if (this.#path === undefined) return undefined
    try {
      const content = JSON.parse(readFileSync(this.#path, 'utf8'))
      if (typeof content?.session !== 'string' || typeof content.token !== 'string') {
        throw new Error('session or token is missing')
      }
      return { session: content.session, token: content.token }
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error)
      if (code === 'ENOENT') return undefined
      throw new WrongUsage(
        `${this.#path}: not the file of a session (${message}); remove it to begin anew`
      )
    }
  }

  /**
   * Notes the session that is open now; only the user may read it.
   * @param {Ticket} ticket
   */
  keep({ session, token }) {
    if (this.#path === undefined) return
    const fresh = `${this.#path}.new`
    try {
      rmSync(fresh, { force: true })
      writeFileSync(fresh, JSON.stringify({ session, token }), { mode: 0o600 })
      renameSync(fresh, this.#path)
    } catch (error) {
      const { message } = /** @type {Error} */ (error)
      throw new WrongUsage(`${this.#path}: cannot be written: ${message}`)
    }
  }

  /** The session is over: there is nothing to take up. */
  forget() {
    if (this.#path !== undefined) rmSync(this.#path, { force: true })
  }
}
