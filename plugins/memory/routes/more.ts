import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { RuntimeError, type Turns, type User } from '#core'
import { refusalOfGiven } from '../keeping/checks.ts'
import type { Settings } from '../kept/memory.ts'
import type { Remembering } from '../remembering.ts'
import { tellsSecret } from '../words/secrets.ts'
import { exportedShape, type importInput } from './shapes.ts'

const longestQuote = 2_000
const dayMs = 86_400_000

/** Takes the memories of an export in. */
export async function importInto(
  self: Remembering,
  did: string,
  given: z.output<typeof importInput>,
) {
  const refused: Record<string, number> = {}
  const refuse = (reason: string) => (refused[reason] = (refused[reason] ?? 0) + 1)
  let [added, confirmed] = [0, 0]
  await self.alone(did, async (trx) => {
    const { sensitive } = await self.settingsOf(did, trx)
    const there = await self.memories.all(trx, did)
    const times = (one: unknown) => Date.parse(String(Object(one).validFrom)) || 0
    for (const entry of [...given.memories].sort((one, other) => times(one) - times(other))) {
      const parsed = exportedShape.safeParse(entry)
      if (!parsed.success) {
        refuse('malformed')
        continue
      }
      const one = parsed.data
      const [first, ...further] = one.sources
      const quote = first?.quote ?? one.text
      const at = Date.parse(one.validFrom)
      const refusal = refusalOfExported(one, self.now, sensitive)
      if (refusal) {
        refuse(refusal)
        continue
      }
      const said = {
        sessionId: first?.sessionId ?? '',
        runId: first?.runId ?? `import-${at}-${added}`,
        quote,
        at,
      }
      const kept = await self.memories.keep(
        trx,
        did,
        {
          kind: one.kind,
          about: one.about,
          slot: one.slot ?? null,
          value: one.value,
          text: one.text,
          by: one.by,
          until: one.until ? Date.parse(one.until) : null,
          pinned: one.pinned,
        },
        said,
        self.now,
        there,
      )
      if (kept.memory)
        await self.memories.bring(trx, kept.memory, {
          sources: further.map((other) => ({ ...other, at: Date.parse(other.at) })),
          uses: one.uses ?? 0,
          createdAt: Date.parse(one.createdAt),
          confirmedAt: Math.min(Date.parse(one.confirmedAt), self.now),
        })
      if (kept.outcome === 'new') added++
      else if (kept.outcome === 'confirmed') confirmed++
      else refuse(kept.outcome)
      if (kept.outcome === 'new' && one.deniedAt)
        await self.memories.end(
          trx,
          did,
          { about: one.about, slot: one.slot ?? null, value: one.value },
          Date.parse(one.deniedAt),
          there,
        )
    }
  })
  return { added, confirmed, refused }
}

/** Why an entry of an export is not taken in; undefined where it is. */
function refusalOfExported(
  one: z.output<typeof exportedShape>,
  now: number,
  sensitive: Settings['sensitive'],
): string | undefined {
  const [first, ...further] = one.sources
  const quote = first?.quote ?? one.text
  // Nobody has said yet what will be said tomorrow; a day is for clocks that differ.
  const latest = now + dayMs
  const isMalformed =
    Date.parse(one.validFrom) > latest ||
    quote.length > longestQuote ||
    further.some((said) => said.quote.length > longestQuote || Date.parse(said.at) > latest)
  if (isMalformed) return 'malformed'
  const refusal = refusalOfGiven({ ...one, slot: one.slot ?? null, quote }, sensitive)
  return refusal ?? (further.some((said) => tellsSecret(said.quote)) ? 'secret' : undefined)
}

/**
 * Rejects with NOT_FOUND where the session is not the caller's. A plugin cannot ask whose a session is, but nobody takes words
 * back in another person's session; the turn that is named here never was, so nothing is taken back in the caller's own.
 */
export async function demandSession(turns: Turns, user: User, session: string): Promise<void> {
  await turns.redact({ user, session, requestId: randomUUID() })
}

/** What a session has to do with memory. */
export async function inSession(self: Remembering, did: string, sessionId: string) {
  const rows = await self.db
    .selectFrom('memory_sources')
    .select('memory_id')
    .distinct()
    .where('did', '=', did)
    .where('session_id', '=', sessionId)
    .execute()
  const own = await self.db
    .selectFrom('memory_sessions')
    .select('incognito')
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .executeTakeFirst()
  const { count } = await self.db
    .selectFrom('memory_passages')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .where('read_at', 'is', null)
    .executeTakeFirstOrThrow()
  return {
    incognito: own?.incognito === 1,
    noticed: rows.map(({ memory_id }) => memory_id),
    pending: Number(count),
  }
}

/** The memories that a run of the person was shown, as far as they are still there. */
export async function usedIn(self: Remembering, did: string, runId: string) {
  const rows = await self.db
    .selectFrom('memory_used')
    .select('ids')
    .where('run_id', '=', runId)
    .where('did', '=', did)
    .execute()
  const ids = new Set(rows.flatMap(({ ids }) => z.array(z.string()).parse(JSON.parse(ids))))
  const { memories } = await self.indexOf(did)
  const noticed = await self.db
    .selectFrom('memory_sources')
    .select('memory_id')
    .where('run_id', '=', runId)
    .where('did', '=', did)
    .execute()
  return {
    used: memories.filter(({ id }) => ids.has(id)).map(({ id, text }) => ({ id, text })),
    noticed: noticed.map(({ memory_id }) => memory_id),
  }
}

/** Figures for the operator, without words. */
export async function statusOf(self: Remembering) {
  const { db } = self
  const modes = await db
    .selectFrom('memory_people')
    .select(['mode', (eb) => eb.fn.countAll<number>().as('count')])
    .groupBy('mode')
    .execute()
  const { memories } = await db
    .selectFrom('memory_memories')
    .select((eb) => eb.fn.countAll<number>().as('memories'))
    .executeTakeFirstOrThrow()
  const { waiting } = await db
    .selectFrom('memory_passages')
    .select((eb) => eb.fn.countAll<number>().as('waiting'))
    .where('read_at', 'is', null)
    .executeTakeFirstOrThrow()
  const counts = await db
    .selectFrom('memory_counts')
    .select(['what', (eb) => eb.fn.sum<number>('count').as('count')])
    .groupBy('what')
    .execute()
  if (!Number.isSafeInteger(Number(memories)))
    throw new RuntimeError('INTERNAL', 'No count of memories.')
  const sums = Object.fromEntries(counts.map(({ what, count }) => [what, Number(count)]))
  return {
    people: Object.fromEntries(modes.map(({ mode, count }) => [mode ?? 'unasked', Number(count)])),
    memories: Number(memories),
    // Each turn that is to be read waits for one job, and one that four attempts could not read is dropped.
    jobs: { waiting: Number(waiting), failed: sums.dropped ?? 0 },
    ms: { prompts: self.times.prompts.figures, readings: self.times.readings.figures },
    counts: sums,
  }
}
