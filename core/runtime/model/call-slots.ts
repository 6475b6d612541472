import type { Delta } from '../../plugin.ts'

type CallDelta = Extract<Delta, { type: 'tool-call' }>

/** A piece of a tool call as it came, with nothing about it certain. */
export interface CallPiece {
  readonly index?: unknown
  readonly id?: unknown
  readonly name?: unknown
  readonly args?: unknown
}

interface Slot {
  readonly index: number
  readonly id: string | undefined
  readonly name: string
  args: string
}

/**
 * Gives every call an index that can be relied on. Providers leave gaps in theirs, leave them out, or
 * number all parallel calls 0; ids are missing, repeated or made anew for each piece.
 */
export function callSlots(): (piece: CallPiece) => CallDelta | undefined {
  const byIndex = new Map<unknown, Slot>()
  let last: Slot | undefined
  let made = 0

  return (piece) => {
    const id = text(piece.id)
    const name = text(piece.name)
    // Some servers send the arguments as an object, whole.
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
