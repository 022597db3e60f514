import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode, wellFormed } from '../src/codec.mjs'
import { ProtocolError } from '../src/errors.mjs'
import { json } from './repository.mjs'

const { frames } = json('vectors/codec.json')
const bytes = (hex) => Buffer.from(hex, 'hex')

/** What a dispatcher may take, and this one does: the decoder keeps the last of two equal keys. */
const BORNE = new Set(['twice', 'json-twice'])

for (const { name, verdict, hex, value } of frames) {
  if (verdict === 'valid') {
    test(`the frame ${name} is taken for its value`, () => {
      assert.deepEqual(decode(bytes(hex)), value)
      assert.deepEqual(decode(encode(value)), value)
    })
  } else {
    test(`the frame ${name} is ${BORNE.has(name) ? 'borne' : 'refused'}`, () => {
      if (BORNE.has(name)) {
        assert.equal(verdict, 'acceptable')
        assert.equal(decode(bytes(hex)).v, 2)
      } else {
        assert.throws(() => decode(bytes(hex)), ProtocolError)
      }
    })
  }
}

test('an integer is written as one, however it was computed', () => {
  assert.deepEqual([...encode({ a: 4 / 2 })], [...bytes('81a16102')])
  assert.deepEqual([...encode({ a: 2 ** 32 })], [...bytes('81a161cf0000000100000000')])
})

test('what is undefined is left out', () => {
  assert.deepEqual([...encode({ a: undefined })], [0x80])
})

test('a float beyond the integers is none of them, and no fault', () => {
  const frame = Buffer.from('81a161cb4340000000000000', 'hex')

  assert.equal(decode(frame).a, 2 ** 53)
})

test('an integer beyond the profile is refused wherever it stands', () => {
  for (const item of ['cf0020000000000000', 'd3ffe0000000000000']) {
    const frame = bytes(`81a1619181a162${item}`)

    assert.throws(() => decode(frame), /beyond 2\^53 - 1/)
  }
})

test('text that is no UTF-8 is refused as a key too, and other text is taken', () => {
  assert.throws(() => decode(bytes('81a2c3e901')), ProtocolError)
  assert.deepEqual(decode(encode({ 'Größe 🧮': '中' })), { 'Größe 🧮': '中' })
})

test('half a surrogate pair does not reach the wire', () => {
  assert.equal(wellFormed('a\ud800b'), 'a\ufffdb')
  assert.equal(wellFormed(undefined), undefined)
})
