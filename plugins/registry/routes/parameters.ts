import { z } from 'zod'
import { entityId } from '../wants.ts'

/** The id of an entity or a protocol, in an address or as an argument. */
export const didParameter = entityId('a DID, or a DID URL with a path, percent-encoded')
/** The input of a request that has only an id. */
export const named = z.object({ did: didParameter })
/** The number of a version. */
export const version = z.number().int().min(1)
/** The id of a claim or a credential. */
export const idParameter = z.string().max(100)
