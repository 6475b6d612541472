import type { Hints } from './listed.ts'

/** How a call of a tool is treated. */
export interface Treatment {
  readonly effect: 'read' | 'write'
  /** A person is asked first. */
  readonly approve: boolean
}

/**
 * How calls of a tool are treated. Hints are the server's word: `trust: "none"` asks before every call. A tool that the operator has
 * not seen as it is now is a write that asks.
 */
export function treatmentOf(hints: Hints, trust: 'hints' | 'none', isSeen: boolean): Treatment {
  if (!isSeen) return { effect: 'write', approve: true }
  const effect = hints.readOnly === true ? 'read' : 'write'
  // Where a server says nothing, its writes count as destructive: so the protocol has it.
  const approve = trust === 'none' || (effect === 'write' && hints.destructive !== false)
  return { effect, approve }
}
