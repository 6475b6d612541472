import type { Selectable } from 'kysely'
import type { MemoriesTable, Mode } from '../tables.ts'
import { slots } from '../words/slots.ts'
import { areAlike, type Letters, lettersOf } from '../words/text.ts'

/** A memory, opened. Times are milliseconds since 1970. */
export interface Memory extends Omit<Selectable<MemoriesTable>, 'pinned' | 'did'> {
  readonly did: string
  pinned: boolean
}

/** Where something was said. */
export interface Said {
  readonly sessionId: string
  readonly runId: string
  readonly quote: string
  /** When it was said. */
  readonly at: number
}

/** What an export tells of a memory beside the first place where it was said. */
export interface ToldOf {
  readonly sources: readonly Said[]
  readonly uses: number
  readonly createdAt: number
  readonly confirmedAt: number
}

/** What is to be kept. */
export interface NewMemory extends Pick<
  Memory,
  'kind' | 'about' | 'slot' | 'value' | 'text' | 'by'
> {
  readonly until?: number | null
  readonly pinned?: boolean
}

/** What became of it. */
export interface Kept {
  readonly outcome: 'new' | 'confirmed' | 'ended' | 'erased' | 'full' | 'nothing'
  readonly memory?: Memory
  /** Memories that ended with this one. */
  readonly replaced: readonly Memory[]
}

/** A person's settings. */
export interface Settings {
  readonly mode: Mode
  readonly sensitive: 'ask' | 'never'
  readonly version: number
}

/** Later than any time. */
export const never = Number.MAX_SAFE_INTEGER
/** How alike two texts of one meaning are, at least. */
const sameMeaning = 0.9

/** Whether a memory holds at a time. */
export const holdsAt = ({ valid_from, valid_to, until }: Memory, at: number): boolean =>
  valid_from <= at && (valid_to ?? never) > at && (until ?? never) > at

/** Whether a slot has one value at a time. */
export const isSingle = ({ slot }: Pick<NewMemory, 'slot'>): boolean =>
  slot !== null && slots[slot] !== undefined && !slots[slot].several

/** What is compared: a memory, or what is to be kept. */
type Worded = Pick<Memory, 'text' | 'value'>
/** The letters of what was compared, for as long as it is there. */
const letters = new WeakMap<Worded, Partial<Record<keyof Worded, Letters>>>()

function lettersIn(one: Worded, field: keyof Worded): Letters {
  const known = letters.get(one)
  const before = known?.[field]
  if (before?.text === one[field]) return before
  const found = lettersOf(one[field])
  letters.set(one, { ...known, [field]: found })
  return found
}

/** Whether two values mean the same. */
export const isAlike = (one: string, other: string): boolean =>
  areAlike(lettersOf(one), lettersOf(other), sameMeaning)

/** Whether a memory says the same as what is to be kept. */
export function isSame(one: Memory, given: NewMemory): boolean {
  if (one.about !== given.about || one.slot !== given.slot) return false
  const field = given.slot !== null && given.value !== '' ? 'value' : 'text'
  return areAlike(lettersIn(one, field), lettersIn(given, field), sameMeaning)
}

/** Whether a memory of the same meaning is the one meant: it held then, or it begins a value that is told of from before. */
export function isNear(one: Memory, at: number, all: readonly Memory[]): boolean {
  if (holdsAt({ ...one, until: null }, at)) return true
  if (!isSingle(one)) return one.valid_to === null
  if (at >= one.valid_from) return false
  return (
    !all.some(
      (other) =>
        other.slot === one.slot &&
        other.about === one.about &&
        other.valid_from > at &&
        other.valid_from < one.valid_from,
    ) &&
    !all.some(
      (other) =>
        other.slot === one.slot &&
        other.about === one.about &&
        other !== one &&
        holdsAt({ ...other, until: null }, at),
    )
  )
}
