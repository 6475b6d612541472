import { createHash } from 'node:crypto'
import { z } from 'zod'
import { created, definePlugin, reply } from '#core'
import { whoAsks, whoCalls } from './access.ts'
import * as arithmetic from './arithmetic/arithmetic.ts'
import { curves, curveSchema, curvesSchema } from './arithmetic/curve.ts'
import { environment } from './environment.ts'
import { LazyDesigns, LazySelections, recordsLater } from './lazy.ts'
import { invalid } from './refusal.ts'
import {
  designIdSchema,
  listSchema,
  recalculationSchema,
  requestSchema,
  revisionInQuery,
  revisionSchema,
  verificationSchema,
} from './request.ts'
import { frameBytes, frameOf, sentFrame } from './selection/frame-lines.ts'
import {
  beaconSchema,
  commitSchema,
  frameSchema,
  nonAdopterFields,
  revealSchema,
} from './selection/request.ts'
import { StoredFrames } from './selection/stored-frames.ts'
import { migrations, withSamplingTables } from './tables.ts'
import { explained, told, toldDraw } from './told.ts'
import { views, web } from './page.ts'
import registry from '../registry/index.ts'
import { FrameQueries, frameOfQuery } from './twins/frame-query.ts'
import { imprecisionOf } from './twins/imprecision.ts'
import {
  answersOf,
  foundIn,
  openingSchema,
  openSurvey,
  stateOf,
  surveyedSchema,
  surveySchema,
} from './twins/survey.ts'
import { askingOf, type Twins } from './twins/twins.ts'

export * from './arithmetic/arithmetic.ts'

const designId = designIdSchema
const named = z.object({ designId })
const revision = revisionInQuery.optional()

const sweepEveryMs = 600_000

/** The right that a user needs for a tool that writes, because designs are records of the operator. */
const write = 'sampling/write'

export default definePlugin({
  name: 'sampling',
  version: '0.1.0',
  summary:
    'Sample sizes for household-energy surveys: designs, strata, recalculation after a period, verifiable random selection.',
  whenToUse: [
    'The user asks how many households to survey or monitor, for a project, a programme or strata of it.',
    'The user has new monitoring data and asks whether the sample is still large enough.',
    'The user wants a random selection that an auditor can check.',
  ],
  whenNotToUse: ['The question is about statistics in general and no sample is being planned.'],
  examples: [
    'How many of our 5,000 households must we survey?',
    'The dropout was 20 %, is the sample still enough?',
    'Explain how you came to 112.',
  ],
  tags: ['sampling', 'survey', 'statistics', 'monitoring', 'households'],
  visibility: 'on-demand',
  stability: 'beta',
  category: 'data',

  env: environment,

  uses: [registry],

  migrations,

  setup({ db, log, oracle, env, fetch, onClose, plugins }) {
    const tables = withSamplingTables(db)
    const now = () => Date.now()
    const { DRAND_URL: relays, LEDGER_URL: ledger } = env
    const records = recordsLater(tables, { fetch, relays, ledger, now })
    const frames = new StoredFrames(tables, now)
    const sweep = () =>
      frames
        .sweep()
        .catch((error: unknown) => log.warn({ err: error }, 'could not sweep unfinished frames'))
    const sweeping = setInterval(sweep, sweepEveryMs).unref()
    onClose(() => clearInterval(sweeping))
    void sweep()
    const twins: Twins | undefined = plugins.registry
    twins?.learnImprecision((project) => imprecisionOf(project, tables))
    return {
      twins,
      frameQueries: new FrameQueries(tables),
      ...arithmetic,
      designs: new LazyDesigns(records),
      selections: new LazySelections(records),
      oracleDid: oracle.did,
    }
  },

  prompt: () =>
    'Sample sizes: confidence 0.95 and precision 0.05 are fixed. Ask for the population, the ' +
    'expected mean, its standard deviation and the dropout rate with their sources; never invent ' +
    'them. Report calculatedSize (completed answers) and adjustedSize (households to draw), pass on ' +
    'every warning, and use explain_sample to show the arithmetic. A draw takes the value of a ' +
    'public beacon (drand:quicknet, drand:default, ledger:<chain id>), or the external verifier ' +
    'draws; a draw with "verifiable": false proves nothing, and you say so.',

  tools: {
    design_sample: {
      description:
        'Works out how many households to sample, for a project or stratum by stratum, and keeps ' +
        'the design. Needs the project’s DID, the population, the expected mean and standard ' +
        'deviation, and the dropout rate.',
      can: { can: write, with: (_, { self }) => self.oracleDid },
      input: requestSchema,
      run: async (request, ctx) => told(await ctx.self.designs.create(request, whoAsks(ctx))),
    },
    get_sample_design: {
      description: 'Reads a sample design, or one of its earlier revisions.',
      effect: 'read',
      input: named.extend({ revision: revisionSchema.optional() }),
      run: async ({ designId, revision }, ctx) =>
        told(await ctx.self.designs.read(designId, whoAsks(ctx), revision)),
    },
    recalculate_sample: {
      description:
        'Works a design out anew from the actual mean, standard deviation and dropout of a ' +
        'monitoring period; with the number of completed answers it also tells how reliable the ' +
        'period was.',
      can: { can: write, with: (_, { self }) => self.oracleDid },
      input: recalculationSchema.extend({ designId }),
      run: async ({ designId, ...actual }, ctx) =>
        told(await ctx.self.designs.recalculate(designId, actual, whoAsks(ctx))),
    },
    select_sample: {
      description:
        'Random selection that anyone can check, in two calls: first with the frame (ids by stratum, ' +
        '"all" without strata), a beacon’s future round and what the frame says of non-adopters; later ' +
        'with published, the answer of a drand relay for that round (not needed where the server fetches ' +
        'it), or beaconHex of a "caller" beacon.',
      can: { can: write, with: (_, { self }) => self.oracleDid },
      input: named.extend({
        frame: frameSchema.optional(),
        beacon: beaconSchema.optional(),
        ...nonAdopterFields,
        extend: z
          .literal(true)
          .optional()
          .describe('Extend the last draw to a size that has grown'),
        beaconHex: revealSchema.shape.beaconHex,
        published: revealSchema.shape.published,
        reserves: revealSchema.shape.reserves,
        frameDigest: revealSchema.shape.frameDigest,
      }),
      async run(asked, ctx) {
        const { designId, frame, beacon, extend, nonAdopters, nonAdopterCounts, ...reveal } = asked
        const { self, signal, emit } = ctx
        const who = whoAsks(ctx)
        if (frame && reveal.beaconHex !== undefined)
          throw invalid('beaconHex', 'commit the frame first; the value comes after its round')
        if (!frame && !extend) {
          const { design, maker } = await self.designs.readToDraw(designId, who)
          const progress = (done: number, total: number) =>
            emit.progress(done, total, 'ids looked at')
          const drawing = { signal, maker, by: who.caller, progress }
          return toldDraw(await self.selections.reveal(design, reveal, drawing))
        }
        const design = await self.designs.readToCommit(designId, who)
        const commitment = {
          frame: frame && !extend ? await frameOf(frame) : undefined,
          beacon,
          marks: { nonAdopters, nonAdopterCounts },
          by: who.caller,
        }
        return toldDraw(await self.selections.commit(design, commitment, signal))
      },
    },
    explain_sample: {
      description: 'The arithmetic of a sample design, step by step, with every number in it.',
      effect: 'read',
      input: named.extend({ revision: revisionSchema.optional() }),
      run: async ({ designId, revision }, ctx) =>
        explained(await ctx.self.designs.read(designId, whoAsks(ctx), revision)),
    },
  },

  userData: {
    async *export(did, { db }) {
      const { exportSamples } = await import('./kept/user-data.ts')
      yield* exportSamples(did, db)
    },
    erase: async (did, { db }) => (await import('./kept/user-data.ts')).eraseSamples(did, db),
  },

  web,
  views,

  routes: {
    'POST /v1/sampling': {
      auth: 'bearer',
      summary: 'Works out a sample design and keeps it.',
      answers: { 201: ['application/json'] },
      raw: true,
      input: requestSchema,
      async run(request, ctx) {
        const design = await ctx.self.designs.create(request, whoCalls(ctx), ctx.raw)
        return created(`/v1/sampling/${design.designId}`, design)
      },
    },
    'GET /v1/sampling': {
      auth: 'bearer',
      summary: 'The designs of a project, newest first.',
      input: listSchema,
      run: ({ projectId, limit, cursor }, ctx) =>
        ctx.self.designs.list(projectId, whoCalls(ctx), limit, cursor),
    },
    'GET /v1/sampling/curve': {
      auth: 'bearer',
      summary: 'Sizes against precision, standard deviation and dropout, for a plot.',
      input: curveSchema,
      output: curvesSchema,
      run: (asked) => curves(asked),
    },
    'GET /v1/sampling/:designId': {
      auth: 'bearer',
      summary: 'A sample design, or an earlier revision of it.',
      answers: { 200: ['application/json'], 304: [] },
      input: named.extend({ revision }),
      async run({ designId, revision }, ctx) {
        const design = await ctx.self.designs.read(designId, whoCalls(ctx), revision)
        // With the ETag a client that polls for a verdict gets a 304 until there is a verdict.
        ctx.koa.set(
          'ETag',
          `"${createHash('sha256').update(JSON.stringify(design)).digest('base64url')}"`,
        )
        return design
      },
    },
    'GET /v1/sampling/:designId/revisions': {
      auth: 'bearer',
      summary: 'Every revision of a design, oldest first.',
      input: named,
      run: ({ designId }, ctx) => ctx.self.designs.revisions(designId, whoCalls(ctx)),
    },
    'GET /v1/sampling/:designId/explanation': {
      auth: 'bearer',
      summary: 'The arithmetic of a design, step by step.',
      input: named.extend({ revision }),
      run: async ({ designId, revision }, ctx) =>
        explained(await ctx.self.designs.read(designId, whoCalls(ctx), revision)),
    },
    'POST /v1/sampling/:designId/recalculate': {
      auth: 'bearer',
      summary: 'Works a design out anew from what a monitoring period found.',
      raw: true,
      input: recalculationSchema.extend({ designId }),
      run: ({ designId, ...actual }, ctx) =>
        ctx.self.designs.recalculate(designId, actual, whoCalls(ctx), ctx.raw),
    },
    'POST /v1/sampling/:designId/selection/commit': {
      auth: 'bearer',
      summary:
        'Freezes the frame and names the future round of a beacon; a frame line by line has the beacon in the query.',
      body: { json: 16 * 1024 * 1024, ndjson: frameBytes },
      input: commitSchema,
      async run({ designId, frame, frameQuery, beacon, extend, marks }, ctx) {
        const { self, signal, caller: by } = ctx
        const design = await self.designs.readToCommit(designId, whoCalls(ctx))
        const found = frameQuery && {
          frame: await frameOfQuery(self.twins, frameQuery, askingOf(ctx)),
          marks: {},
        }
        const sent = extend ? undefined : (found ?? (await sentFrame(frame, ctx)))
        const commitment = { frame: sent?.frame, beacon, marks: { ...sent?.marks, ...marks }, by }
        const committed = await self.selections.commit(design, commitment, signal)
        if (!frameQuery) return committed
        await self.frameQueries.keep(designId, committed.frameDigest, frameQuery)
        return { ...committed, frameQuery }
      },
    },
    'POST /v1/sampling/:designId/selection': {
      auth: 'bearer',
      summary: 'Draws the sample with the value of the committed round, or keeps a verifier’s own.',
      body: { kind: 'json', maxBytes: 16 * 1024 * 1024 },
      input: revealSchema.extend({ designId }),
      async run({ designId, ...reveal }, ctx) {
        const { self, signal } = ctx
        const external = reveal.external?.verifier
        const { design, maker } = await self.designs.readToDraw(designId, whoCalls(ctx), external)
        const drawn = await self.selections.reveal(design, reveal, {
          signal,
          maker,
          by: ctx.caller,
        })
        // The draw is from the frame as it was committed; the digest tells whether the query finds others now.
        const frameNow = await self.frameQueries.now(
          designId,
          drawn.frameDigest,
          self.twins,
          askingOf(ctx),
        )
        return { ...drawn, ...(frameNow && { frameNow }) }
      },
    },
    'GET /v1/sampling/:designId/survey': {
      auth: 'bearer',
      summary: 'The twins that were drawn, with the approved or the open claim about each.',
      input: surveySchema.extend({ designId }),
      async run({ designId, ...survey }, ctx) {
        const { self } = ctx
        const design = await self.designs.read(designId, whoCalls(ctx))
        const selection = await self.selections.read(design)
        return stateOf(design, await answersOf(self.twins, selection, survey, askingOf(ctx)))
      },
    },
    'POST /v1/sampling/:designId/survey': {
      auth: 'bearer',
      summary: 'Opens a claim about every twin that was drawn, for its controller to fill in.',
      input: openingSchema.extend({ designId }),
      async run({ designId, ...opening }, ctx) {
        const { self } = ctx
        const selection = await self.selections.read(
          await self.designs.read(designId, whoCalls(ctx)),
        )
        return { designId, ...(await openSurvey(self.twins, selection, opening, askingOf(ctx))) }
      },
    },
    'POST /v1/sampling/:designId/survey/recalculate': {
      auth: 'bearer',
      summary: 'Works a design out anew from the approved claims about the twins that were drawn.',
      input: surveyedSchema.extend({ designId }),
      async run({ designId, ...survey }, ctx) {
        const { self } = ctx
        const who = whoCalls(ctx)
        const design = await self.designs.read(designId, who)
        const selection = await self.selections.read(design)
        const answers = await answersOf(self.twins, selection, survey, askingOf(ctx))
        return self.designs.recalculate(designId, foundIn(answers, design, survey.property), who)
      },
    },
    'GET /v1/sampling/:designId/selection': {
      auth: 'bearer',
      summary: 'The commitment and what was drawn from it.',
      input: named.extend({ revision }),
      run: async ({ designId, revision }, ctx) =>
        ctx.self.selections.read(await ctx.self.designs.read(designId, whoCalls(ctx), revision)),
    },
    'GET /v1/sampling/:designId/selection/audit-file': {
      auth: 'bearer',
      summary: 'The file by which the verifier showed how the sample was drawn outside.',
      answers: { 200: ['application/octet-stream'] },
      input: named.extend({ revision }),
      async run({ designId, revision }, ctx) {
        const design = await ctx.self.designs.read(designId, whoCalls(ctx), revision)
        const file = await ctx.self.selections.auditFile(design)
        // The file is a stranger's: no browser shall show it as a page of this server.
        const name = encodeURIComponent(file.name)
        return new Response(Buffer.from(file.content, 'base64'), {
          headers: {
            'content-type': 'application/octet-stream',
            'content-disposition': `attachment; filename*=UTF-8''${name}`,
          },
        })
      },
    },
    'GET /v1/sampling/:designId/csv': {
      auth: 'bearer',
      summary: 'A design as CSV: a row for each stratum, or one for the whole.',
      answers: { 200: ['text/csv'] },
      input: named.extend({ revision }),
      async run({ designId, revision }, ctx) {
        const design = await ctx.self.designs.read(designId, whoCalls(ctx), revision)
        const { csvOf } = await import('./parts.ts')
        return reply(200, csvOf(design), {
          type: 'text/csv; charset=utf-8',
          headers: {
            'Content-Disposition': `attachment; filename="sampling-${design.designId}-${design.revision}.csv"`,
          },
        })
      },
    },
    'POST /v1/sampling/:designId/verification': {
      auth: 'bearer',
      summary: 'Submits a design, or records what its verifier decided.',
      input: verificationSchema.extend({ designId }),
      run: ({ designId, ...step }, ctx) => ctx.self.designs.verify(designId, step, whoCalls(ctx)),
    },
  },
})
