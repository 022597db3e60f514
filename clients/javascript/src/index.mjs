// A client for Parley: a mirror of queue and nodes, and the loop that talks to the server.

export { serve } from './session.mjs'
export { View } from './view.mjs'
export { Cluster } from './cluster.mjs'
export { FOREVER, Job, NEVER, RunningJob, merged } from './job.mjs'
export {
  ClientError,
  ConnectionLost,
  ProtocolError,
  ServerRefused,
  WrongUsage
} from './errors.mjs'

/** @typedef {import('./session.mjs').Dispatcher} Dispatcher */
/** @typedef {import('./mirror.mjs').Watcher} Watcher */
