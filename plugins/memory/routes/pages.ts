import { z } from 'zod'
import { created, matchesEtag, RuntimeError } from '#core'
import { refusalOfGiven } from '../keeping/checks.ts'
import { holdsAt, type Memory, type NewMemory, type Said } from '../kept/memory.ts'
import { filledBy } from '../keeping/rules.ts'
import { byHand, refused } from '../keeping/refusals.ts'
import type { Remembering } from '../remembering.ts'
import { isSlot } from '../words/slots.ts'
import { contentWords } from '../words/text.ts'
import type { changedMemory, exportShape, listQuery, newMemory } from './shapes.ts'

const iso = (ms: number) => new Date(ms).toISOString()

/** A memory as its person sees it. */
export function viewOf(memory: Memory, sources: readonly Said[], all: readonly Memory[] = []) {
  const { id, n, kind, about, slot, text, by, pinned, uses } = memory
  const said = sources.map((one) => ({ ...one, at: iso(one.at) }))
  const [source] = said
  const next = all.find(
    (one) =>
      slot !== null &&
      one.slot === slot &&
      one.about === about &&
      one.valid_from === memory.valid_to,
  )
  return {
    id,
    name: `m${n}`,
    kind,
    about,
    ...(slot !== null && { slot }),
    text,
    quote: source?.quote ?? text,
    ...(source && { source }),
    sources: said.length,
    by,
    validFrom: iso(memory.valid_from),
    ...(memory.valid_to !== null && { validTo: iso(memory.valid_to) }),
    ...(next && { replacedBy: next.id }),
    ...(memory.until !== null && { until: iso(memory.until) }),
    pinned,
    uses,
    confirmedAt: iso(memory.confirmed_at),
    createdAt: iso(memory.created_at),
    etag: etagOf(memory),
  }
}

/** The listing: by a question, else the newest first. */
export async function list(self: Remembering, did: string, query: z.output<typeof listQuery>) {
  const { mode } = await self.settingsOf(did)
  const index = await self.indexOf(did)
  const at = self.now
  const ordered =
    query.query !== undefined && contentWords(query.query).length > 0
      ? index.find(query.query, at, query.history)
      : query.query === undefined
        ? [...index.memories].sort((one, other) => other.n - one.n)
        : []
  const found = ordered
    .filter((one) => query.history || holdsAt(one, at))
    .filter((one) => query.kind === undefined || one.kind === query.kind)
    .filter((one) => query.about === undefined || one.about === query.about)
  const from = Number(query.cursor ?? 0)
  const page = found.slice(from, from + query.limit)
  const sources = await self.memories.sourcesOf(self.db, did)
  return {
    memories: page.map((one) => viewOf(one, sources.get(one.id) ?? [], index.memories)),
    total: found.length,
    ...(from + query.limit < found.length && { cursor: String(from + query.limit) }),
    mode,
    max: self.env.MEMORY_MAX,
  }
}

/** Adds what a person wrote by hand. */
export async function add(self: Remembering, did: string, given: z.output<typeof newMemory>) {
  const { text, kind = 'fact', about = 'me', until, pinned } = given
  const filled = given.slot === undefined && about === 'me' ? filledBy(text) : undefined
  const slot = filled?.slot ?? given.slot
  const at = self.now
  if (slot !== undefined && !isSlot(slot)) throw refused('unknown-slot')
  const made: NewMemory = {
    text: text.trim(),
    kind,
    about,
    slot: slot ?? null,
    value: filled?.value ?? (slot === undefined ? '' : text.trim()),
    by: 'person',
    until: comingTime(until, at),
    pinned,
  }
  const { sensitive } = await self.settingsOf(did)
  const kept = await self.remember(did, made, byHand(at, text.trim()), sensitive)
  if (!kept.memory) throw new Error('A memory that was kept is there.')
  const view = viewOf(kept.memory, [byHand(at, text.trim())])
  return kept.outcome === 'confirmed' ? view : created(`/memory/${kept.memory.id}`, view)
}

function comingTime(until: string | null | undefined, at: number): number | null {
  if (until === undefined || until === null) return null
  const time = Date.parse(until)
  if (time > at) return time
  throw new RuntimeError('INVALID_INPUT', `"until" is ${until}, which has passed.`, {
    hint: 'Leave it out, or name a time to come.',
  })
}

/** One memory of the person, or NOT_FOUND. */
async function demand(self: Remembering, did: string, id: string) {
  const all = await self.memories.all(self.db, did)
  const memory = all.find((one) => one.id === id)
  if (!memory) throw new RuntimeError('NOT_FOUND', 'You have no such memory.')
  return { memory, all }
}

/** What a client names a memory's state by. */
export const etagOf = ({ id, text, kind, slot, until, pinned }: Memory): string =>
  `"${contentDigest([id, text, kind, slot, until, pinned])}"`

function contentDigest(parts: readonly unknown[]): string {
  let hash = 5381
  for (const sign of JSON.stringify(parts))
    hash = (hash * 33 + (sign.codePointAt(0) ?? 0)) % 2 ** 48
  return hash.toString(36)
}

/** One memory with all that is known of it. */
export async function show(self: Remembering, did: string, id: string) {
  const { memory, all } = await demand(self, did, id)
  const sources = (await self.memories.sourcesOf(self.db, did)).get(id) ?? []
  const { slot, about, valid_from } = memory
  const replaced = all.filter(
    (one) =>
      slot !== null &&
      one.slot === slot &&
      one.about === about &&
      one.valid_to === valid_from &&
      one.id !== id,
  )
  const whole = {
    ...viewOf(memory, sources, all),
    allSources: sources.map((one) => ({ ...one, at: iso(one.at) })),
    replaced: replaced.map((one) => one.id),
  }
  return { whole, etag: etagOf(memory) }
}

/** Corrects a memory. */
export async function change(
  self: Remembering,
  did: string,
  {
    id,
    ifMatch,
    ...changes
  }: z.output<typeof changedMemory> & { id: string; ifMatch: string | undefined },
) {
  const { text, slot } = changes
  return self.alone(did, async (trx) => {
    const all = await self.memories.all(trx, did)
    const memory = all.find((one) => one.id === id)
    if (!memory) throw new RuntimeError('NOT_FOUND', 'You have no such memory.')
    if (ifMatch !== undefined && !matchesEtag(ifMatch, etagOf(memory)))
      throw new RuntimeError('PRECONDITION_FAILED', 'The memory was changed meanwhile.', {
        status: 412,
        hint: 'Read it again, and change what you then see.',
      })
    const changed: Memory = {
      ...memory,
      text: text?.trim() ?? memory.text,
      kind: changes.kind ?? memory.kind,
      slot: slot === undefined ? memory.slot : slot,
      value: text !== undefined ? text.trim() : memory.value,
      until: changes.until === undefined ? memory.until : comingTime(changes.until, self.now),
      pinned: changes.pinned ?? memory.pinned,
      by: text === undefined ? memory.by : 'person',
    }
    const { sensitive } = await self.settingsOf(did, trx)
    const refusal = refusalOfGiven({ ...changed, quote: '' }, sensitive)
    if (refusal) throw refused(refusal)
    await self.memories.change(trx, changed, memory)
    return { memory: viewOf(changed, [], all), etag: etagOf(changed) }
  })
}

/** Erases one memory; the answer names the sessions that still hold the words. */
export async function erase(self: Remembering, did: string, id: string) {
  const { gone, sessions } = await self.erase(did, [id])
  if (gone.length === 0) throw new RuntimeError('NOT_FOUND', 'You have no such memory.')
  return {
    message: 'It is erased. These sessions still hold the words.',
    erased: gone.length,
    sessions: sessions.map((session) => ({ sessionId: session, delete: `/sessions/${session}` })),
  }
}

/** Everything that is remembered of a person, with what held before. */
export async function exported(
  self: Remembering,
  did: string,
): Promise<z.input<typeof exportShape>> {
  const { mode, sensitive } = await self.settingsOf(did)
  const all = await self.memories.all(self.db, did)
  const sources = await self.memories.sourcesOf(self.db, did)
  return {
    version: 1,
    settings: { mode, sensitive },
    memories: all.map((one) => ({
      kind: one.kind,
      about: one.about,
      ...(one.slot !== null && { slot: one.slot }),
      value: one.value,
      text: one.text,
      by: one.by,
      validFrom: iso(one.valid_from),
      ...(one.valid_to !== null && { validTo: iso(one.valid_to) }),
      ...(one.denied_at !== null && { deniedAt: iso(one.denied_at) }),
      ...(one.until !== null && { until: iso(one.until) }),
      pinned: one.pinned,
      uses: one.uses,
      confirmedAt: iso(one.confirmed_at),
      createdAt: iso(one.created_at),
      sources: (sources.get(one.id) ?? [])
        .slice(0, 100)
        .map((said) => ({ ...said, at: iso(said.at) })),
    })),
  }
}
