import type { MemoryDatabase } from '../tables.ts'
import { plain } from '../words/text.ts'
import { isSingle, type NewMemory, type Said } from './memory.ts'
import type { Vault } from './vault.ts'

/** By what a denial is known again. */
export const denialOf = (
  did: string,
  { slot, about, value }: Pick<NewMemory, 'slot' | 'about' | 'value'>,
) => ['denied', did, slot, plain(about), plain(value)].join('\n')

/**
 * By what something that was erased is known again: its sentence, its quotes, its value in the slot; and the slot itself where
 * it has one value, because what the slot held before was erased too.
 */
export const erasedWords = (
  did: string,
  { slot, about, value, text }: Pick<NewMemory, 'slot' | 'about' | 'value' | 'text'>,
  quotes: readonly string[],
): string[] => [
  ['text', did, plain(text)].join('\n'),
  ...quotes.map((quote) => ['text', did, plain(quote)].join('\n')),
  ...(slot === null || value === '' ? [] : [['slot', did, slot, plain(value)].join('\n')]),
  ...(isSingle({ slot }) ? [['slot', did, slot, plain(about)].join('\n')] : []),
]

/** When the person said that something holds no more, where that was said later, but read earlier. */
export async function deniedAt(
  trx: MemoryDatabase,
  vault: Vault,
  did: string,
  given: NewMemory,
  saidAt: number,
): Promise<number | null> {
  if (given.slot === null) return null
  const texts = [denialOf(did, given), denialOf(did, { ...given, value: '' })]
  const rows = await trx
    .selectFrom('memory_denials')
    .select('at')
    .where('did', '=', did)
    .where(
      'hash',
      'in',
      texts.flatMap((text) => vault.hashes(text)),
    )
    .where('at', '>', saidAt)
    .execute()
  return rows.length === 0 ? null : Math.min(...rows.map(({ at }) => Number(at)))
}

/** Whether the person erased this after it was said. */
export async function wasErased(
  trx: MemoryDatabase,
  vault: Vault,
  did: string,
  given: NewMemory,
  said: Said,
) {
  const hashes = erasedWords(did, given, [said.quote]).flatMap((text) => vault.hashes(text))
  const row = await trx
    .selectFrom('memory_erased')
    .select('at')
    .where('did', '=', did)
    .where('hash', 'in', hashes)
    .where('at', '>=', said.at)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
