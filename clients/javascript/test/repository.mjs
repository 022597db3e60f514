// The project's schemas, vectors and transcripts, which every implementation is held to.

import { readFileSync, readdirSync } from 'node:fs'

const SCHEMAS = new URL('../../../schemas/', import.meta.url)

export const json = (path) => JSON.parse(readFileSync(new URL(path, SCHEMAS), 'utf8'))

export const examples = () =>
  readdirSync(new URL('examples/', SCHEMAS))
    .filter((name) => name.endsWith('.json'))
    .map((name) => [name, json(`examples/${name}`)])

/** The messages of a transcript, in the order in which they were sent. */
export const transcript = (name) =>
  readFileSync(new URL(`transcripts/${name}.jsonl`, SCHEMAS), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter((line) => 'dir' in line)
    .map((line) => line.view)
