import { createHash } from 'node:crypto'
import { z } from 'zod'
import { created, definePlugin } from '#core'
import { whoAsks, whoCalls } from './access.ts'
import * as arithmetic from './arithmetic/arithmetic.ts'
import { curves, curveSchema, curvesSchema } from './arithmetic/curve.ts'
import { Designs } from './design/designs.ts'
import { explain, summarize } from './design/explain.ts'
import { Frame } from './selection/frame.ts'
import { frameBytes, readFrame } from './selection/frame-lines.ts'
import type { SampleDesign } from './design/record.ts'
import { invalid } from './refusal.ts'
import {
  beaconSchema,
  commitSchema,
  designIdSchema,
  frameSchema,
  listSchema,
  recalculationSchema,
  requestSchema,
  revealSchema,
  revisionInQuery,
  revisionSchema,
  verificationSchema,
} from './request.ts'
import { Selections } from './selection/selections.ts'
import { migrations, withSamplingTables } from './tables.ts'

export * from './arithmetic/arithmetic.ts'

const designId = designIdSchema
const named = z.object({ designId })
/** A design as a model is told of it: what matters first. */
const told = (design: SampleDesign) => ({ summary: summarize(design), ...design })
const revision = revisionInQuery.optional()

const sweepEveryMs = 600_000

/** The right that a user needs for a tool that writes: its records stand in the operator's register, as those of the routes do. */
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

  migrations,

  setup({ db, log, oracle, onClose }) {
    const tables = withSamplingTables(db)
    const selections = new Selections(tables)
    const sweep = () =>
      selections
        .sweep()
        .catch((error: unknown) => log.warn({ err: error }, 'could not sweep unfinished frames'))
    const sweeping = setInterval(sweep, sweepEveryMs).unref()
    onClose(() => clearInterval(sweeping))
    void sweep()
    return {
      ...arithmetic,
      designs: new Designs(tables, (of, sizes) => selections.extend(of, sizes)),
      selections,
      oracleDid: oracle.did,
    }
  },

  prompt: () =>
    'Sample sizes: confidence 0.95 and precision 0.05 are fixed. Ask for the population, the expected mean, its standard deviation and the dropout rate with their sources; never invent them. Report calculatedSize (completed answers) and adjustedSize (households to draw), pass on every warning, and use explain_sample to show the arithmetic.',

  tools: {
    design_sample: {
      description:
        'Works out how many households to sample, for a project or stratum by stratum, and keeps the design. Needs the project’s DID, the population, the expected mean and standard deviation, and the dropout rate.',
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
        'Works a design out anew from the actual mean, standard deviation and dropout of a monitoring period; with the number of completed answers it also tells how reliable the period was.',
      can: { can: write, with: (_, { self }) => self.oracleDid },
      input: recalculationSchema.extend({ designId }),
      run: async ({ designId, ...actual }, ctx) =>
        told(await ctx.self.designs.recalculate(designId, actual, whoAsks(ctx))),
    },
    select_sample: {
      description:
        'Random selection that anyone can check, in two calls: first with the frame (ids by stratum, "all" without strata) and a beacon’s future round, later with beaconHex, the value of that round.',
      can: { can: write, with: (_, { self }) => self.oracleDid },
      input: named.extend({
        frame: frameSchema.optional(),
        beacon: beaconSchema.optional(),
        beaconHex: revealSchema.shape.beaconHex,
        reserves: revealSchema.shape.reserves,
      }),
      async run({ designId, frame, beacon, ...reveal }, ctx) {
        const { self, signal, emit } = ctx
        const who = whoAsks(ctx)
        if (frame && reveal.beaconHex !== undefined)
          throw invalid('beaconHex', 'commit the frame first; the value comes after its round')
        if (!frame) {
          const { design, maker } = await self.designs.readToDraw(designId, who)
          const progress = (done: number, total: number) =>
            emit.progress(done, total, 'ids looked at')
          return self.selections.reveal(design, reveal, { signal, maker, progress })
        }
        if (!beacon) throw invalid('beacon', 'missing; name a round that is still to come')
        const design = await self.designs.readToCommit(designId, who)
        return self.selections.commit(design, Frame.of(Object.entries(frame)), beacon, who.caller)
      },
    },
    explain_sample: {
      description: 'The arithmetic of a sample design, step by step, with every number in it.',
      effect: 'read',
      input: named.extend({ revision: revisionSchema.optional() }),
      run: async ({ designId, revision }, ctx) => ({
        steps: explain(await ctx.self.designs.read(designId, whoAsks(ctx), revision)),
      }),
    },
  },

  routes: {
    'POST /v1/sampling': {
      auth: 'bearer',
      summary: 'Works out a sample design and keeps it.',
      answers: { 201: ['application/json'] },
      input: requestSchema,
      async run(request, ctx) {
        const design = await ctx.self.designs.create(request, whoCalls(ctx))
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
        // A client that polls for a verdict gets a 304 until there is one.
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
      run: async ({ designId, revision }, ctx) => ({
        steps: explain(await ctx.self.designs.read(designId, whoCalls(ctx), revision)),
      }),
    },
    'POST /v1/sampling/:designId/recalculate': {
      auth: 'bearer',
      summary: 'Works a design out anew from what a monitoring period found.',
      input: recalculationSchema.extend({ designId }),
      run: ({ designId, ...actual }, ctx) =>
        ctx.self.designs.recalculate(designId, actual, whoCalls(ctx)),
    },
    'POST /v1/sampling/:designId/selection/commit': {
      auth: 'bearer',
      summary:
        'Freezes the frame and names the future round of a beacon; a frame line by line has the beacon in the query.',
      body: { json: 16 * 1024 * 1024, ndjson: frameBytes },
      input: commitSchema,
      async run({ designId, frame, beacon }, ctx) {
        const design = await ctx.self.designs.readToCommit(designId, whoCalls(ctx))
        const frozen = frame ? Frame.of(Object.entries(frame)) : await readFrame(ctx.lines)
        return ctx.self.selections.commit(design, frozen, beacon, ctx.caller)
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
        return self.selections.reveal(design, reveal, { signal, maker })
      },
    },
    'GET /v1/sampling/:designId/selection': {
      auth: 'bearer',
      summary: 'The commitment and what was drawn from it.',
      input: named.extend({ revision }),
      run: async ({ designId, revision }, ctx) =>
        ctx.self.selections.read(await ctx.self.designs.read(designId, whoCalls(ctx), revision)),
    },
    'POST /v1/sampling/:designId/verification': {
      auth: 'bearer',
      summary: 'Submits a design, or records what its verifier decided.',
      input: verificationSchema.extend({ designId }),
      run: ({ designId, ...step }, ctx) => ctx.self.designs.verify(designId, step, whoCalls(ctx)),
    },
  },
})
