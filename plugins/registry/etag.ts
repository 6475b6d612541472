import { matchesEtag, RuntimeError } from '#core'

/** The ETag of a version. */
export const etagOf = ({ version }: { readonly version: number }): string => `"${version}"`

/** Refuses a change when If-Match names another version than the present one. Accepts every change without If-Match. */
export function mustMatch(
  ifMatch: string | undefined,
  row: { readonly did: string; readonly version: number },
): void {
  if (ifMatch === undefined || matchesEtag(ifMatch, etagOf(row))) return
  throw new RuntimeError(
    'PRECONDITION_FAILED',
    `${row.did} is at version ${row.version} now, which If-Match does not name.`,
    { hint: 'Read the present version, then decide.', headers: { ETag: etagOf(row) } },
  )
}

/** The If-Match header of a change, which is refused without one. */
export function demandedTag(header: string): string {
  if (header !== '') return header
  throw new RuntimeError(
    'PRECONDITION_REQUIRED',
    'The change does not say which version it is for.',
    {
      hint: 'Send the ETag of the last read as If-Match.',
    },
  )
}
