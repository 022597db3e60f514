#!/usr/bin/env node
// EASY backfilling; see backfilling.mjs.

import { Easy } from './backfilling.mjs'
import { run } from './program.mjs'

run('parley-easy', () => new Easy())
