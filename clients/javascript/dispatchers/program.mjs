// Runs a dispatcher as a program: options in, one line for what went wrong, an exit status.

import { ClientError, WrongUsage, serve } from '../src/index.mjs'
import { KillOverdue } from './kill_overdue.mjs'
import { parseOptions } from './options.mjs'
import { Periodic } from './periodic.mjs'

/** @typedef {import('../src/index.mjs').Dispatcher} Dispatcher */

const COMPLETE = 0
const INCOMPLETE = 1
const USAGE = 2
const SIGNALS = /** @type {const} */ ([
  ['SIGINT', 130],
  ['SIGTERM', 143]
])

/**
 * Decides for one session and exits.
 * @param {string} name
 * @param {() => Dispatcher} make
 */
export async function run(name, make) {
  const tell = (/** @type {string} */ line) => process.stderr.write(`${name}: ${line}\n`)
  for (const [signal, status] of SIGNALS) {
    process.on(signal, () => {
      tell('interrupted before the run was over')
      process.exit(status)
    })
  }
  process.exit(await status(make, tell))
}

/**
 * @param {() => Dispatcher} make
 * @param {(line: string) => void} tell
 */
async function status(make, tell) {
  try {
    const options = parseOptions(process.argv.slice(2))
    let dispatcher = make()
    if (options.intervalUs > 0) dispatcher = new Periodic(dispatcher, options.intervalUs)
    if (options.killOverdue) dispatcher = new KillOverdue(dispatcher)
    const { reason } = await serve(dispatcher, options.connect, {
      sessionFile: options.sessionFile
    })
    if (reason === 'completed' || reason === 'stopped') return COMPLETE
    tell(`the run is not complete: ${reason}`)
    return INCOMPLETE
  } catch (error) {
    if (error instanceof ClientError) {
      tell(error.message)
      return error instanceof WrongUsage ? USAGE : INCOMPLETE
    }
    // No fault of the user's: where it happened helps whoever mends it.
    const { stack = String(error) } = /** @type {Error} */ (error)
    tell(`a fault of its own: ${stack.split('\n', 2).join('').replace(/\s+/g, ' ')}`)
    return INCOMPLETE
  }
}
