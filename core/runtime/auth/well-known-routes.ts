import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { KernelEnv } from '../../manifest/kernel-env.ts'
import type { AnyRoute, Model } from '../../plugin.ts'
import { runtimeVersion } from '../base/version.ts'
import type { Signer } from './did/signer.ts'
import type { Addresses } from './registration.ts'

/** The keys of the routes by which strangers find the oracle. */
export const wellKnownRouteKeys = [
  'GET /.well-known/oracle.json',
  'GET /.well-known/did.json',
] as const

/** The facts that the oracle's public documents tell. */
export interface WellKnownParts {
  readonly config: KernelEnv
  readonly signer: Signer | undefined
  readonly oracleDid: string
  addresses(): Addresses
  /** The models that answer. */
  readonly models: { readonly default: Model }
  /** What plugins add to the document of the oracle. */
  facts(): Promise<Readonly<Record<string, unknown>>>
}

/** The public documents of the oracle: where it answers, and the keys that it signs with. */
export function wellKnownRoutes({
  config,
  signer,
  oracleDid,
  addresses,
  models,
  facts,
}: WellKnownParts): Record<(typeof wellKnownRouteKeys)[number], AnyRoute> {
  return {
    'GET /.well-known/oracle.json': {
      auth: 'public',
      summary:
        'What clients resolve from the oracle’s DID: where it answers, its model and its price.',
      output: z.looseObject({
        did: z.string(),
        entityDid: z.string().optional(),
        name: z.string(),
        apiUrl: z.string(),
        wsUrl: z.string(),
        model: z.string(),
        price: z.string().nullable(),
        runtime: z.string(),
      }),
      async run() {
        const { price = null, ...told } = await facts()
        return {
          ...told,
          did: oracleDid,
          entityDid: config.ORACLE_ENTITY_DID,
          name: config.ORACLE_NAME,
          ...addresses(),
          model: models.default.id,
          price: config.ORACLE_PRICE ?? (price === null ? null : String(price)),
          runtime: runtimeVersion,
        }
      },
    },
    'GET /.well-known/did.json': {
      auth: 'public',
      summary: 'The DID document of the signing key.',
      answers: { 200: ['application/did+json'] },
      run(_, { koa }) {
        if (!signer)
          throw new RuntimeError(
            'NOT_FOUND',
            'No signing key is loaded, so there is no document.',
            { hint: 'Set ORACLE_MNEMONIC.' },
          )
        koa.type = 'application/did+json'
        // The document of a did:web stands at this place, so it is the oracle's where the oracle goes by one.
        const id = config.ORACLE_DID?.startsWith('did:web:') ? config.ORACLE_DID : signer.did
        const all = new Set([config.ORACLE_DID, config.ORACLE_ENTITY_DID, signer.did])
        const alsoKnownAs = [...all].filter((did) => did !== undefined).filter((did) => did !== id)
        return signer.didDocument({ ...addresses(), alsoKnownAs, id })
      },
    },
  }
}
