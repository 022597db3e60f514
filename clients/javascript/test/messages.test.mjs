import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as messages from '../src/messages.mjs'
import { ProtocolError } from '../src/errors.mjs'
import { examples, json } from './repository.mjs'

const { $defs: definitions } = json('definitions.schema.json')

/** The names of the schemas, where they are others than ours. */
const OURS = { Error: 'ErrorReport' }

const READ = [
  'Program', 'Granted', 'Limits', 'Policy', 'Rules', 'Scenario', 'NodeGroup', 'Platform',
  'Welcome', 'ChunkGroup', 'Job', 'Outcome', 'RunningJob', 'Timer', 'State', 'DecisionRequest',
  'StateSnapshot', 'ProgressAck', 'Stats', 'SessionEnd', 'Error'
]

const fieldsOf = (name) => Object.keys(definitions[name].properties ?? {}).sort()

const referenced = (schema) => [
  ...new Set([...JSON.stringify(schema).matchAll(/\$defs\/(\w+)/g)].map(([, name]) => name))
]

for (const name of READ) {
  test(`a ${name} has the fields of its schema, and needs those that it demands`, () => {
    const check = messages[OURS[name] ?? name]

    assert.deepEqual(Object.keys(check.fields).sort(), fieldsOf(name))
    for (const [field, checkField] of Object.entries(check.fields)) {
      const required = definitions[name].required?.includes(field) ?? false
      if (required) assert.throws(() => checkField(undefined, field), ProtocolError, field)
      else assert.equal(checkField(null, field), null)
    }
  })
}

test('every event has the fields of its schema, and each that there is is known', () => {
  const known = referenced(definitions.DecisionRequest.properties.events)
  const kinds = known
    .filter((name) => name !== 'UnknownEvent')
    .map((name) => [definitions[name].properties.kind.const, name])

  assert.deepEqual(Object.keys(messages.Events).sort(), kinds.map(([kind]) => kind).sort())
  for (const [kind, name] of kinds) {
    assert.deepEqual(Object.keys(messages.Events[kind].fields).sort(), fieldsOf(name))
  }
})

test('what is written has the fields that its schema had when it was written', () => {
  const written = {
    Hello: ['ask', 'capabilities', 'client', 'resume', 'scenario', 'versions', 'wants'],
    Capabilities: ['decisions', 'state', 'submit'],
    Resume: ['session', 'token'],
    DecisionReply: ['compute_us', 'decisions', 'state_version'],
    Progress: ['note'],
    Bye: ['reason'],
    Empty: [],
    Start: ['allocation', 'id', 'job', 'kind'],
    Reject: ['id', 'job', 'kind', 'reason'],
    Kill: ['id', 'job', 'kind'],
    Requeue: ['id', 'job', 'kind'],
    Hold: ['id', 'job', 'kind', 'reason'],
    Release: ['id', 'job', 'kind'],
    Wake: ['at_us', 'id', 'kind', 'timer'],
    WakeCancel: ['id', 'kind', 'timer'],
    Annotate: ['expected_start_us', 'id', 'job', 'kind', 'reason'],
    Stop: ['id', 'kind', 'reason']
  }
  for (const [name, fields] of Object.entries(written)) assert.deepEqual(fieldsOf(name), fields)
})

const BODIES = {
  welcome: messages.Welcome,
  'decision.request': messages.DecisionRequest,
  'state.snapshot': messages.StateSnapshot,
  'progress.ack': messages.ProgressAck,
  'session.end': messages.SessionEnd,
  error: messages.ErrorReport
}

for (const [name, message] of examples()) {
  const check = BODIES[message.type]
  if (check === undefined) continue
  test(`the example ${name} is taken as it is`, () => {
    const { body } = messages.Envelope(message, '')

    assert.equal(check(body, 'body'), message.body)
  })
}

test('neither a text nor a boolean nor a fraction is an integer, and the path is told', () => {
  const [, request] = examples().find(([name]) => name === 'decision.request-resumed.json')
  for (const wrong of ['7', true, null, 7.5, 2 ** 53, [7]]) {
    const body = structuredClone(request.body)
    body.state.running[0].start_us = wrong

    assert.throws(
      () => messages.DecisionRequest(body, 'body'),
      /^ProtocolError: body\.state\.running\.0\.start_us: an integer/
    )
  }
})
