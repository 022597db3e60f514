// What can go wrong on the dispatcher's side, each as one clear line.

/** The dispatcher cannot go on; the text is for its user. */
export class ClientError extends Error {
  get name() {
    return this.constructor.name
  }
}

/** Something was asked for that makes no sense, before any server was involved. */
export class WrongUsage extends ClientError {}

/** The server is gone, or never was there. */
export class ConnectionLost extends ClientError {}

/** A frame or message that is not the protocol's. */
export class ProtocolError extends ClientError {}

/** The server sent an error, or something that is not the protocol. */
export class ServerRefused extends ClientError {
  /**
   * @param {string} message
   * @param {{code?: string, fatal?: boolean}} [error] what the server said; none if it was nonsense
   */
  constructor(message, { code, fatal = false } = {}) {
    super(message)
    this.code = code
    this.fatal = fatal
  }
}

/** What the server tells cannot be true of the state as it is known here. */
export class Drift extends ClientError {}
