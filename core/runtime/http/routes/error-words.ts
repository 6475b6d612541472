import type { RendersErrors } from '../../../plugin.ts'

/** An address, and how errors at it and below are told. */
export interface ErrorWords {
  readonly mount: string
  readonly render: RendersErrors
}

/** How errors at a path are told: as the deepest address above it says; undefined where they have the usual shape. */
export function errorWordsAt(
  path: string,
  errors: readonly ErrorWords[] = [],
): RendersErrors | undefined {
  let deepest: ErrorWords | undefined
  for (const words of errors) {
    const isBelow = path === words.mount || path.startsWith(`${words.mount}/`)
    if (isBelow && words.mount.length > (deepest?.mount.length ?? 0)) deepest = words
  }
  return deepest?.render
}
