import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import type { Memory, Said } from '../kept/memory.ts'
import { slots } from '../words/slots.ts'
import type { Refusal } from './checks.ts'

/** Where something stands that a person wrote by hand. */
export const byHand = (at: number, quote: string): Said => ({
  sessionId: '',
  runId: `hand-${randomUUID()}`,
  quote,
  at,
})

const sentences: Readonly<Record<Refusal, string>> = {
  'no-evidence': 'The person did not say this.',
  quoted: 'The person quoted this from somebody else.',
  invented: 'This holds words or numbers that the person did not say.',
  unreal: 'This was a question, a play or a condition.',
  'not-a-fact': 'A memory is one line of 3 to 240 characters, and no order to the oracle.',
  secret:
    'Passwords, PINs, card and account numbers, keys and numbers of identity papers are never kept.',
  sensitive:
    'The person chose that nothing about health, religion, politics, origin, sexuality, crimes or addresses is kept.',
  erased: 'The person erased this.',
  'unknown-slot': `There is no such slot. The slots: ${Object.keys(slots).join(', ')}.`,
}

/** The error for what is not kept. */
export const refused = (reason: Refusal): RuntimeError =>
  new RuntimeError('MEMORY_REFUSED', sentences[reason], { status: 422, details: { reason } })

/** A memory by its id or by the name that prompts show. */
export const isNamed = ({ id, n }: Memory, name: string): boolean => id === name || `m${n}` === name
