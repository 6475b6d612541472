import type { Delta } from '../../../plugin.ts'

type CallDelta = Extract<Delta, { type: 'tool-call' }>

/** A piece of a tool call as the provider sent it. Each field may be missing or of another type. */
export interface CallPiece {
  readonly index?: unknown
  readonly id?: unknown
  readonly name?: unknown
  readonly args?: unknown
}

/** A tool call in the making. */
interface Slot {
  readonly index: number
  readonly id: string | undefined
  readonly name: string
  args: string
}

/**
 * Makes a function that turns each piece into a delta whose index is certain. The indexes of some providers have gaps, are
 * missing, or are 0 for all parallel calls; their ids are missing, repeat, or are new for each piece.
 */
export function callSlots(): (piece: CallPiece) => CallDelta | undefined {
  const byIndex = new Map<unknown, Slot>()
  let last: Slot | undefined
  let made = 0

  return (piece) => {
    const id = text(piece.id)
    const name = text(piece.name)
    // Some servers send the whole arguments as an object.
    const whole = typeof piece.args === 'object' && piece.args !== null
    const args = whole ? JSON.stringify(piece.args) : text(piece.args)
    const key = piece.index ?? id

    let slot = key === undefined ? last : byIndex.get(key)
    const anew = !slot || beginsAnother(slot, id, name, args)
    if (!slot || anew) {
      if (!name && !args && !id) return undefined
      slot = { index: made++, id, name: name ?? '', args: '' }
    }
    byIndex.set(key, slot)
    last = slot
    slot.args += args ?? ''
    if (anew) return { type: 'tool-call', index: slot.index, id, name, args }
    return args ? { type: 'tool-call', index: slot.index, args } : undefined
  }
}

/** What every provider takes as the name of a tool. */
const wellNamed = /^[\w-]{1,64}$/

/**
 * A name of a call as providers take it. A model may make up a name, or send none; its provider would refuse every later request
 * with such a call, and the session would be dead.
 */
export function callName(name: string): string {
  return wellNamed.test(name) ? name : name.replace(/[^\w-]/g, '_').slice(0, 64) || 'unnamed'
}

/** Whether a piece that came under a slot's index is in truth the start of another call. */
function beginsAnother(slot: Slot, id?: string, name?: string, args?: string): boolean {
  if (!name) return false
  const repeated = name === slot.name && (id === undefined || id === slot.id)
  if (repeated && !args) return false
  if (slot.args) return isWhole(slot.args)
  return id !== undefined && slot.id !== undefined && id !== slot.id
}

function isWhole(args: string): boolean {
  if (!args.trimEnd().endsWith('}')) return false
  try {
    JSON.parse(args)
    return true
  } catch {
    return false
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value ? value : undefined
}
