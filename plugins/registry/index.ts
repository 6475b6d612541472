import { z } from 'zod'
import { builtView, definePlugin, type Database, type Jobs, type Oracle } from '#core'
import type { Self } from './context.ts'
import type { ImprecisionOf } from './evaluation/minting.ts'
import { evaluationAttempts, verdictTools } from './evaluation/verdict.ts'
import { environment, type Environment } from './environment.ts'
import type { Registry } from './registry.ts'
import { claimsRoutes } from './routes/claims.ts'
import { credentialsRoutes } from './routes/credentials.ts'
import { entitiesRoutes } from './routes/entities.ts'
import { eventsRoutes } from './routes/events.ts'
import { identifiersRoutes } from './routes/identifiers.ts'
import { protocolsRoutes } from './routes/protocols.ts'
import { relationshipsRoutes } from './routes/relationships.ts'
import { subscriptionsRoutes } from './routes/subscriptions.ts'
import { tools } from './tools.ts'

/** Loads the registry with the first request that needs it, so that a server starts sooner. */
function setup({ db, oracle, env, jobs }: Boot): Self {
  let loading: Promise<Registry> | undefined
  let imprecisionOf: ImprecisionOf | undefined
  const load = async (): Promise<Registry> => {
    const { Registry } = await import('./registry.ts')
    return new Registry({
      db,
      oracle,
      organisational: wordsOf(env.REGISTRY_ORGANISATION_TYPES),
      quotas: {
        entities: env.REGISTRY_ENTITIES_PER_DID,
        protocols: env.REGISTRY_PROTOCOLS_PER_DID,
        edges: env.REGISTRY_EDGES_PER_DID,
        claims: env.REGISTRY_CLAIMS_PER_DID,
      },
      isPublic: env.REGISTRY_READ === 'public',
      askToFill: (on, key) => jobs.within(on).later('index', {}, { key }),
      imprecisionOf: async (project) => imprecisionOf?.(project),
      askForWork: (on, job, claim) => jobs.within(on).later(job, { claim }, { key: claim }),
    })
  }
  const registry = () => (loading ??= load())
  return {
    oracleDid: oracle.did,
    registry,
    async *twins(...asked) {
      yield* (await registry()).peers.twins(...asked)
    },
    approved: async (...asked) => (await registry()).peers.approved(...asked),
    async openClaims(wanted, calling) {
      const loaded = await registry()
      return loaded.opened.open(wanted, loaded.actorOf(calling))
    },
    async openAbout(wanted, calling) {
      const { opened, readers } = await registry()
      return opened.about(wanted, readers.of(calling))
    },
    learnImprecision: (told) => void (imprecisionOf = told),
  }
}

const wordsOf = (list: string) => new Set(list.split(',').flatMap((word) => word.trim() || []))

/** What the jobs take, by their names. */
const inputs = {
  index: z.object({}),
  deliver: z.object({ id: z.string(), revived: z.number().default(0) }),
  evaluate: z.object({ claim: z.string() }),
  mint: z.object({ claim: z.string() }),
}

/** The key of a delivery: where it begins, and in which life of the subscription. */
const keyOf = (id: string, reached: number, revived = 0) =>
  revived === 0 ? `${id}-${reached}` : `${id}-${reached}-${revived}`

/** What `setup` needs of boot. */
interface Boot {
  readonly db: Database
  readonly oracle: Oracle
  readonly env: Environment
  readonly jobs: Jobs<typeof inputs>
}

export default definePlugin({
  name: 'registry',
  version: '0.1.0',
  summary:
    'Digital twins and how they relate: organisations, projects, assets, oracles; their protocols, claims and credentials.',
  whenToUse: [
    'The user asks about an organisation, a project, a device or another entity, or how they relate.',
    'The user wants an entity recorded, or two of them related.',
  ],
  whenNotToUse: ['The question is about the ledger itself.'],
  examples: ['Which stoves did the project in Lusaka distribute?', 'Register a new cookstove.'],
  tags: ['twins', 'entities', 'graph', 'did', 'protocols', 'claims', 'credentials'],
  visibility: 'on-demand',
  stability: 'beta',
  category: 'data',

  env: environment,

  migrations: {
    '001-entities': async (db) => (await import('./tables.ts')).createEntities(db),
    '002-protocols': async (db) => (await import('./tables.ts')).createProtocols(db),
    '003-claims': async (db) => (await import('./claims/tables.ts')).createClaims(db),
    '004-rights': async (db) => (await import('./rights/tables.ts')).createRights(db),
    '005-indexes': async (db) => (await import('./indexes/tables.ts')).createIndexes(db),
    '006-subscriptions': async (db) =>
      (await import('./subscriptions/tables.ts')).createSubscriptions(db),
    '007-evaluations': async (db) => (await import('./evaluation/tables.ts')).createReviews(db),
    '008-revivals': async (db) => (await import('./subscriptions/tables.ts')).createRevivals(db),
    '009-told-turns': async (db) =>
      (await import('./evaluation/told-turns.ts')).createToldTurns(db),
  },

  setup,

  jobs: {
    // Looks for subscriptions with changes before them. The key holds how far one has come: only one job delivers from there.
    subscriptions: {
      every: '5s',
      async run(_, { self, jobs }) {
        const { subscriptions } = await self.registry()
        for (const { id, reached, revived } of await subscriptions.behind())
          await jobs.later('deliver', { id, revived }, { key: keyOf(id, reached, revived) })
      },
    },

    deliver: {
      input: inputs.deliver,
      attempts: 36,
      timeoutMs: 300_000,
      async run({ id, revived }, { self, job, jobs }) {
        const { subscriptions } = await self.registry()
        const reached = await subscriptions.deliver(id, job)
        if (reached !== undefined)
          await jobs.later('deliver', { id, revived }, { key: keyOf(id, reached, revived) })
      },
    },

    // A claim came whose protocol says how it is evaluated: rules decide, or a turn of the agent, or a person is asked.
    evaluate: {
      input: inputs.evaluate,
      attempts: evaluationAttempts,
      timeoutMs: 900_000,
      async run({ claim }, { self, job, turns }) {
        await (await self.registry()).evaluations.run(claim, { job, turns })
      },
    },

    // A claim was approved whose protocol makes credits.
    mint: {
      input: inputs.mint,
      run: async ({ claim }, { self }) => void (await (await self.registry()).minting.run(claim)),
    },

    // A protocol has declared an index, or dropped one: its entities are read in bounded steps.
    index: {
      input: inputs.index,
      timeoutMs: 3_600_000,
      run: async (_, { self, job }) => (await self.registry()).fillIndexes(job.signal),
    },
  },

  prompt: () =>
    'The registry holds digital twins by DID. Find before you create, walk the graph instead of ' +
    'guessing how things relate, and look at a protocol before you fill in its properties. Name ' +
    'entities to the user by their properties, with the DID beside.',

  tools,
  toolsFor: verdictTools,

  userData: {
    async *export(did, { db }) {
      const { exportRegistry } = await import('./rights/user-data.ts')
      yield* exportRegistry(did, db)
    },
    async erase(did, { db, turns, self: { oracleDid } }) {
      const { eraseRegistry } = await import('./rights/user-data.ts')
      return eraseRegistry(did, db, { turns, oracleDid })
    },
  },

  web: {
    '/registry-page': builtView(
      '/registry-page/view.js',
      new URL('./built/view.js', import.meta.url),
    ),
  },
  views: {
    registry: {
      label: { en: 'Registry', sw: 'Rejista', fr: 'Registre' },
      module: '/registry-page/view.js',
      order: 40,
    },
  },

  routes: {
    ...entitiesRoutes,
    ...relationshipsRoutes,
    ...eventsRoutes,
    ...protocolsRoutes,
    ...claimsRoutes,
    ...credentialsRoutes,
    ...subscriptionsRoutes,
    ...identifiersRoutes,
  },
})
