import { matchesEtag, RuntimeError } from '#core'

/** A version as HTTP compares it. */
export const etagOf = ({ version }: { readonly version: number }): string => `"${version}"`

/** Refuses a change of a version that the caller has not seen; without a tag there is nothing to compare. */
export function mustMatch(
  ifMatch: string | undefined,
  row: { readonly did: string; readonly version: number },
): void {
  if (ifMatch === undefined || matchesEtag(ifMatch, etagOf(row))) return
  throw new RuntimeError(
    'PRECONDITION_FAILED',
    `${row.did} is at version ${row.version} now, which If-Match does not name.`,
    { hint: 'Read it again, then decide.', headers: { ETag: etagOf(row) } },
  )
}

/** The tag that a change must come with. */
export function demandedTag(header: string): string {
  if (header !== '') return header
  throw new RuntimeError('PRECONDITION_REQUIRED', 'The change says not which version it is of.', {
    hint: 'Send the ETag of the last read as If-Match.',
  })
}
