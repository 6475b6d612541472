import type { Fault } from '../errors.ts'

/** An issue of a schema, as far as callers and models hear of it. */
interface Issue {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

/** One issue of a schema as the fault that callers and models read. */
export const faultOf = ({ path, message }: Issue): Fault => ({
  path: path.map(String).join('.'),
  message,
})

/** Every issue of a schema's error, as faults. */
export const faultsOf = ({ issues }: { readonly issues: readonly Issue[] }): Fault[] =>
  issues.map(faultOf)

/** The faults as one sentence. */
export const faultText = (faults: readonly Fault[]): string =>
  faults.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; ')
