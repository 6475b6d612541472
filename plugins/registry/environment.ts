import { z } from 'zod'

const quota = (usual: number) => z.coerce.number().int().min(1).max(100_000_000).default(usual)
const organisational =
  'OrganisationEntity,OrganizationEntity,ProjectEntity,FunderEntity,DistributionAgentEntity'

/** The variables of the registry. */
export const environment = {
  REGISTRY_READ: z
    .enum(['granted', 'public'], 'granted or public')
    .default('granted')
    .describe(
      'granted: callers read what is theirs or names them, and all with registry/read; public: everybody who may call reads everything',
    ),
  REGISTRY_ENTITIES_PER_DID: quota(10_000).describe('Entities that one DID ever creates'),
  REGISTRY_PROTOCOLS_PER_DID: quota(1_000).describe('Protocols that one DID ever creates'),
  REGISTRY_EDGES_PER_DID: quota(100_000).describe('Edges that one DID ever draws'),
  REGISTRY_CLAIMS_PER_DID: quota(100_000).describe('Claims that one DID ever submits'),
  REGISTRY_ORGANISATION_TYPES: z
    .string()
    .default(organisational)
    .describe('Types whose entities are organisational domains, with membership groups'),
}

/** The values of the variables after the schema has parsed them. */
export type Environment = {
  readonly [Name in keyof typeof environment]: z.output<(typeof environment)[Name]>
}
