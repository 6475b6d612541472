import type { Remembering, Where } from '../remembering.ts'
import { ownWords, support } from './checks.ts'

/** Something that a person said. */
export interface Spoken {
  readonly runId: string
  readonly at: number
  readonly words: string
}

/** How many earlier messages of a session may carry what is to be remembered. */
const mostEarlier = 40

/**
 * What a person said in a session before this turn and that is still there, the newest first. Where others read along nobody's
 * words are kept, so there is nothing.
 */
export async function spokenBefore(self: Remembering, where: Where): Promise<Spoken[]> {
  if (where.shared) return []
  const rows = await self.db
    .selectFrom('memory_passages')
    .select(['run_id', 'at', 'words'])
    .where('session_id', '=', where.sessionId)
    .where('did', '=', where.did)
    .where('words', '!=', '')
    .orderBy('at', 'desc')
    .limit(mostEarlier)
    .execute()
  return rows.map(({ run_id: runId, at, words }) => ({
    runId,
    at: Number(at),
    words: self.vault.read(words, runId, where.did),
  }))
}

/** How much of a sentence stands in the person's own words, and the message that carries most of it, of equals the first. */
export function carried(
  sentence: string,
  said: readonly Spoken[],
): { readonly share: number; readonly by: Spoken | undefined } {
  const own = said.map(({ words }) => ownWords(words))
  const shares = own.map((words) => support(sentence, [words]))
  return { share: support(sentence, own), by: said[shares.indexOf(Math.max(...shares))] }
}
