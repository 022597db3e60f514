// What the command lines of the dispatchers have in common.

import { parseArgs } from 'node:util'
import { WrongUsage } from '../src/index.mjs'

const USAGE =
  'options: --connect ENDPOINT (else PARLEY_ENDPOINT), --session-file PATH, ' +
  '--interval SECONDS, --kill-overdue'

const UNITS = /** @type {const} */ ({ '': 1, s: 1, m: 60, h: 3600, d: 86_400 })

/**
 * @typedef {object} Options
 * @property {string} [connect] where the server listens
 * @property {string} [sessionFile] keeps what it takes to go on after a crash
 * @property {number} intervalUs decide only at multiples of this; 0 is at every instant
 * @property {boolean} killOverdue kill jobs whose walltime has passed
 */

/**
 * @param {string[]} words
 * @returns {Options}
 */
export function parseOptions(words) {
  try {
    const { values } = parseArgs({
      args: words,
      options: {
        connect: { type: 'string' },
        'session-file': { type: 'string' },
        interval: { type: 'string' },
        'kill-overdue': { type: 'boolean' }
      }
    })
    return {
      connect: values.connect,
      sessionFile: values['session-file'],
      intervalUs: values.interval === undefined ? 0 : microseconds(values.interval),
      killOverdue: values['kill-overdue'] ?? false
    }
  } catch (error) {
    if (error instanceof WrongUsage) throw error
    const [line] = /** @type {Error} */ (error).message.split('\n')
    throw new WrongUsage(`${line}; ${USAGE}`)
  }
}

/**
 * Seconds, or a number with one of the units s, m, h, d, as whole microseconds.
 * @param {string} text
 */
export function microseconds(text) {
  const found = /^([0-9]{1,12})(?:\.([0-9]{1,6}))?([smhd]?)$/.exec(text)
  if (found !== null) {
    const [, whole, fraction = '', unit] = found
    // Exact: 0.3 of a minute is 18 seconds, whatever 0.3 is in binary.
    const millionths = BigInt(whole + fraction.padEnd(6, '0'))
    const value = millionths * BigInt(UNITS[/** @type {keyof typeof UNITS} */ (unit)])
    if (value > 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value)
  }
  throw new WrongUsage(`--interval is a time longer than zero, such as 30 or 5m, not '${text}'`)
}
