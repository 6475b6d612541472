import { z } from 'zod'
import { greatestVersion } from '../reading/page.ts'
import { entityId, wants } from '../wants.ts'

/** The id of an entity or a protocol, in an address or as an argument. */
export const didParameter = entityId('a DID, or a DID URL with a path, percent-encoded')
/** The input of a request that has only an id. */
export const named = z.object({ did: didParameter })
const aVersion = 'the number of a version'
/** The number of a version. */
export const version = z
  .number(wants(aVersion))
  .int(wants(aVersion))
  .min(1, wants(aVersion))
  .max(greatestVersion, wants(aVersion))
/** The id of a claim or a credential. */
export const idParameter = z.string().max(100)
