import { invalid } from '../refusal.ts'
import type { RevisionRow } from '../tables.ts'

/** Writes the cursor of a list whose next page begins after this design. */
export const writeCursor = ({ created_at, design_id }: RevisionRow): string =>
  Buffer.from(`${created_at} ${design_id}`).toString('base64url')

/** Reads the cursor: the design after which the page begins. */
export function readCursor(cursor: string): { createdAt: string; designId: string } {
  const [createdAt = '', designId] = Buffer.from(cursor, 'base64url').toString().split(' ')
  if (designId === undefined) throw invalid('cursor', 'give the nextCursor of a list')
  return { createdAt, designId }
}
