// Bytes to values and back: the MessagePack profile, and JSON text for whoever is answered in it.
//
// A double holds every integer of the profile, and the decoder rounds those beyond it without a
// word: whatever is beyond 2^53 - 1 is looked at again, as what it was written.

import { Decoder, Encoder } from '@msgpack/msgpack'
import { ProtocolError } from './errors.mjs'

/** @typedef {{[key: string]: unknown}} Fields */

const DEPTH = 32
const BRACE = 0x7b

/** Lengths that a header may claim in a frame of less bytes; memory is set aside for them. */
const SHORT = 2 ** 20

const encoder = new Encoder({ ignoreUndefined: true })
const decoder = decoderOf(SHORT)

const NOT_ASCII = /[^\0-\x7f]/
const HALF_A_PAIR = /\p{Surrogate}/u

/**
 * Returns the frame of a message that was built to the profile; what is undefined is left out.
 * @param {Fields} message
 * @returns {Uint8Array}
 */
export function encode(message) {
  return encoder.encode(message)
}

/**
 * Returns text without halves of surrogate pairs, which the encoder would write as no UTF-8.
 * @param {string | undefined} text
 */
export function wellFormed(text) {
  return text === undefined ? undefined : Buffer.from(text).toString()
}

/**
 * Returns the map in a frame.
 * @param {Uint8Array} frame
 * @returns {Fields}
 * @throws {ProtocolError} it is not one map of the profile
 */
export function decode(frame) {
  const isJson = frame[0] === BRACE
  const value = isJson ? fromJson(frame) : fromMessagePack(frame, decoder)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('a message is a map')
  }
  new Profile(frame, isJson).check(value, DEPTH)
  return /** @type {Fields} */ (value)
}

/** @param {Uint8Array} frame */
function fromJson(frame) {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(frame))
  } catch (error) {
    throw new ProtocolError(`not JSON: ${/** @type {Error} */ (error).message}`)
  }
}

/**
 * @param {Uint8Array} frame
 * @param {Decoder} usual
 */
function fromMessagePack(frame, usual) {
  try {
    return (frame.length > SHORT ? decoderOf(frame.length) : usual).decode(frame)
  } catch (error) {
    throw new ProtocolError(`not MessagePack: ${/** @type {Error} */ (error).message}`)
  }
}

/**
 * @param {number} most the length of an array or a map
 * @param {boolean} [exact] whether integers of 64 bits are read as BigInt
 */
function decoderOf(most, exact = false) {
  return new Decoder({
    useBigInt64: exact,
    maxArrayLength: most,
    maxMapLength: most,
    maxBinLength: 0,
    mapKeyConverter: (key) => {
      if (typeof key !== 'string') throw new Error('a key is a text')
      return key
    },
    extensionCodec: {
      tryToEncode: () => null,
      decode: () => {
        throw new Error('no extension type is in the profile')
      }
    }
  })
}

/** Looks through a decoded value for what the profile does not have. */
class Profile {
  #position = 0

  /**
   * @param {Uint8Array} frame
   * @param {boolean} isJson
   */
  constructor(frame, isJson) {
    this.frame = frame
    this.isJson = isJson
  }

  /**
   * @param {unknown} value
   * @param {number} depth
   */
  check(value, depth) {
    if (typeof value === 'number') this.#number(value)
    else if (typeof value === 'string') this.#text(value)
    else if (typeof value === 'object' && value !== null) this.#container(value, depth - 1)
  }

  /**
   * @param {object} value
   * @param {number} depth
   */
  #container(value, depth) {
    if (depth < 0) throw new ProtocolError(`nested deeper than ${DEPTH}`)
    if (Array.isArray(value)) {
      for (const item of value) this.check(item, depth)
    } else if (value instanceof Uint8Array) {
      throw new ProtocolError('bin is not in the profile')
    } else {
      for (const key in value) {
        this.#text(key)
        this.check(/** @type {Fields} */ (value)[key], depth)
      }
    }
  }

  /** @param {number} value */
  #number(value) {
    if (!Number.isFinite(value)) throw new ProtocolError(`${value} is no number of the profile`)
    if (Math.abs(value) > Number.MAX_SAFE_INTEGER && !this.isJson && !this.exact) {
      // Was it an integer, or a float?
      this.exact = fromMessagePack(this.frame, decoderOf(this.frame.length, true))
      refuseBeyond(this.exact)
    }
  }

  /** @param {string} text */
  #text(text) {
    if (!NOT_ASCII.test(text)) return
    if (this.isJson) {
      if (HALF_A_PAIR.test(text)) throw new ProtocolError('half a surrogate pair is no text')
      return
    }
    // What was no UTF-8 has become some text or other, whose own bytes do not stand in the frame.
    const bytes = Buffer.from(text)
    const frame = Buffer.from(this.frame.buffer, this.frame.byteOffset, this.frame.byteLength)
    let at = frame.indexOf(bytes, this.#position)
    if (at < 0) at = frame.indexOf(bytes)
    if (at < 0) throw new ProtocolError('a text is not valid UTF-8')
    this.#position = at
  }
}

/** @param {unknown} value */
function refuseBeyond(value) {
  if (typeof value === 'bigint') {
    const size = value < 0n ? -value : value
    if (size > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new ProtocolError(`${value} is beyond 2^53 - 1`)
    }
  } else if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(refuseBeyond)
  }
}
