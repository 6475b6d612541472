import { z } from 'zod'
import { claimSchema, evaluationSchema, findClaimsSchema } from './claims/request.ts'
import { tool, type RegistryToolContext } from './context.ts'
import { findSchema, walkOf, walkSchema } from './reading/query.ts'
import { entitySchema } from './request.ts'
import { didParameter, idParameter, named, version } from './routes/parameters.ts'
import { edgeSchema } from './routes/relationships.ts'
import { safe } from './safe.ts'

/** The right that a user needs for a tool that writes. */
const toWrite = {
  can: 'registry/write',
  with: (_: unknown, { self }: RegistryToolContext) => self.oracleDid,
}

/** The tools by which an agent uses the registry. */
export const tools = {
  find_entities: tool({
    description:
      'Finds entities by type, protocol, controller, class, text or exact properties, oldest first. Deactivated ones only when asked for.',
    effect: 'read',
    input: findSchema,
    async run({ limit, cursor, properties = {}, ...filter }, ctx) {
      const exact = new Map(Object.entries(properties).map(([key, value]) => [key, `${value}`]))
      const { lists, readers } = await ctx.self.registry()
      const wanted = { ...filter, properties: exact }
      return lists.list(wanted, readers.of(ctx), limit, cursor)
    },
  }),
  get_entity: tool({
    description: 'Reads one entity by its DID.',
    effect: 'read',
    input: named,
    async run({ did }, ctx) {
      const { entities, readers } = await ctx.self.registry()
      return entities.read(did, readers.of(ctx))
    },
  }),
  create_entity: tool({
    description:
      'Records a new entity that follows a protocol. The user becomes its controller. Look at the protocol first.',
    effect: 'write',
    can: toWrite,
    input: entitySchema,
    async run(request, ctx) {
      const registry = await ctx.self.registry()
      return registry.changes.create(registry.actorOf(ctx), safe(request))
    },
  }),
  relate_entities: tool({
    description:
      'Draws an edge from an entity that the user controls to another, in a role that the ' +
      'protocol of the first one has; or confirms an edge as it is.',
    effect: 'write',
    can: toWrite,
    input: edgeSchema,
    async run({ did, ...relationship }, ctx) {
      const registry = await ctx.self.registry()
      const made = await registry.changes.relate(registry.actorOf(ctx), did, safe(relationship))
      return { did, ...relationship, version: made.version }
    },
  }),
  traverse_entities: tool({
    description:
      'Walks the graph from an entity: which entities it reaches over how many edges, and by which roles.',
    effect: 'read',
    input: walkSchema,
    async run({ did, ...walk }, ctx) {
      const { graph, readers } = await ctx.self.registry()
      return graph.walk(did, walkOf(walk), readers.of(ctx), ctx.signal)
    },
  }),
  describe_protocol: tool({
    description:
      'What a protocol asks of its entities: properties with their types, roles with the kinds ' +
      'of entity in them. Without a DID it lists the protocols.',
    effect: 'read',
    input: z.object({ did: didParameter.optional(), version: version.optional() }),
    async run({ did, version }, ctx) {
      const { protocols, readers } = await ctx.self.registry()
      const reader = readers.of(ctx)
      return did === undefined ? protocols.list(reader, 50) : protocols.read(did, reader, version)
    },
  }),
  find_claims: tool({
    description:
      'Finds claims about assets by asset, type, status or oracle, newest first, with what an ' +
      'oracle said of each and the credential that it became.',
    effect: 'read',
    input: findClaimsSchema,
    async run(query, ctx) {
      const { claims, readers } = await ctx.self.registry()
      return claims.list(query, readers.of(ctx))
    },
  }),
  submit_claim: tool({
    description:
      'Submits a claim about an asset, such as a period of use, for an oracle to evaluate. The user controls the asset.',
    can: toWrite,
    input: claimSchema,
    async run(claim, ctx) {
      const registry = await ctx.self.registry()
      return registry.claims.submit(safe(claim), registry.actorOf(ctx))
    },
  }),
  evaluate_claim: tool({
    description:
      'Records an oracle’s verdict on a claim, once and for good; approved, the claim becomes a ' +
      'signed credential. The user controls the oracle and says what the verdict is.',
    can: toWrite,
    // The result contains texts that the submitter of the claim wrote.
    foreign: true,
    input: evaluationSchema.extend({ claim: idParameter.describe('The id of the claim') }),
    async run({ claim, ...verdict }, ctx) {
      const registry = await ctx.self.registry()
      return registry.claims.evaluate(claim, safe(verdict), registry.actorOf(ctx))
    },
  }),
}
