import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { builtView, definePlugin, RuntimeError } from '#core'
import { plainPrefix, readLegacyPrefix } from './http/prefixes.ts'

const list = z
  .string()
  .transform((text) => text.split(',').flatMap((item) => item.trim() || []))
  .default([])
const startedAt = new Date()
const flag = z.stringbool().default(false)

function readAuthorities(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new RuntimeError('ENV_INVALID', `GATEWAY_TLS_CA is "${file}", which cannot be read.`, {
      hint: 'Set GATEWAY_TLS_CA to the path of a PEM file.',
      cause,
    })
  }
}

export default definePlugin({
  name: 'query-gateway',
  summary: 'HTTP and JSON access to the query services of a ledger, and questions to it.',
  whenToUse: ['The user asks about something recorded on the ledger: an entity, a claim, a token.'],
  whenNotToUse: ['Something is to be written to the ledger: this only reads.'],
  examples: ['What does the ledger say about did:x:1?', 'What are the token parameters?'],
  tags: ['ledger', 'chain', 'grpc', 'query', 'token', 'balance', 'claim'],
  visibility: 'on-demand',
  stability: 'beta',
  category: 'integration',

  env: {
    GATEWAY_UPSTREAM: z
      .string()
      .regex(/^[^/\s,]+:\d+(\s*,\s*[^/\s,]+:\d+){0,15}$/, 'it is no list of at most 16 host:port')
      .transform((text) => text.split(',').map((address) => address.trim()))
      .describe('host:port of the gRPC servers whose queries are served, with commas between'),
    GATEWAY_TLS: flag.describe('Speak TLS to the upstream'),
    GATEWAY_TLS_CA: z.string().optional().describe('PEM file of the authorities to trust for it'),
    GATEWAY_DESCRIPTORS: z.string().optional().describe('FileDescriptorSet file of the services'),
    GATEWAY_REFLECTION: flag.describe('Ask the upstream for its descriptors instead'),
    GATEWAY_DIALECT: z
      .enum(['cosmos', 'grpc-gateway', 'proto3'])
      .default('cosmos')
      .describe('How JSON is written'),
    GATEWAY_DECIMALS: flag.describe('Write cosmos.Dec fields as decimals'),
    GATEWAY_PREFIX: z
      .string()
      .transform(plainPrefix)
      .optional()
      .describe('The current prefix of the routes; default: what the annotations share'),
    GATEWAY_LEGACY_PREFIXES: list
      .refine((prefixes) => prefixes.every((text) => readLegacyPrefix(text, startedAt)), {
        error: 'it is no list of prefixes such as "old, older=2026-01-31"',
      })
      .describe('Old prefixes of the same routes, each with the day since when: old=2026-01-31'),
    GATEWAY_STRICT_QUERY: flag.describe('Refuse query parameters that name no field'),
    GATEWAY_DISABLED: list.describe('Services or service/methods that answer 501'),
    GATEWAY_DEADLINE_MS: z.coerce
      .number()
      .int()
      .positive()
      .max(600_000)
      .default(15_000)
      .describe('How long the upstream may take'),
    GATEWAY_REQUIRED_HEADERS: list
      .meta({ secret: true })
      .describe('Headers that clients must send: name or name=value'),
    GATEWAY_API_KEY: z
      .string()
      .optional()
      .meta({ secret: true })
      .describe('Key that clients must send'),
    GATEWAY_RATE_PER_MINUTE: z.coerce
      .number()
      .int()
      .positive()
      .default(600)
      .describe('Requests a minute from one address'),
    GATEWAY_CORS_ORIGINS: list.describe('Origins whose pages may read answers, or *'),
  },

  async setup({ env, log, holdsCredential, onClose, pending, health }) {
    const { GATEWAY_UPSTREAM: upstreams, GATEWAY_DESCRIPTORS: file, GATEWAY_TLS_CA: ca } = env
    if (file === undefined && !env.GATEWAY_REFLECTION)
      throw new RuntimeError(
        'ENV_MISSING',
        'Plugin query-gateway env validation failed for GATEWAY_DESCRIPTORS.',
        {
          hint: 'Set GATEWAY_DESCRIPTORS to a FileDescriptorSet file, or set GATEWAY_REFLECTION=true.',
        },
      )
    const { Catalogue, Gate, Gateway, Http2Transport, Queries, Upstreams } =
      await import('./parts.ts')
    const security = {
      tls: env.GATEWAY_TLS,
      ...(ca === undefined ? {} : { ca: readAuthorities(ca) }),
    }
    const transports = upstreams.map((upstream) => ({
      name: upstream,
      transport: new Http2Transport({ upstream, ...security }),
    }))
    const [first] = transports
    // One upstream needs nobody who chooses.
    const transport =
      transports.length === 1 && first
        ? first.transport
        : new Upstreams(transports, { tell: (sentence) => log.warn(sentence) })
    onClose(() => transport.close())
    const catalogue = Catalogue.open({
      transport,
      file,
      log,
      dialect: env.GATEWAY_DIALECT,
      decimals: env.GATEWAY_DECIMALS,
      strictQuery: env.GATEWAY_STRICT_QUERY,
      off: env.GATEWAY_DISABLED,
    })
    onClose(() => catalogue.close())
    pending(
      catalogue.ready,
      file === undefined
        ? 'it asks the upstream for its descriptors; check GATEWAY_UPSTREAM and GATEWAY_TLS'
        : 'it reads its descriptors; check GATEWAY_DESCRIPTORS',
      // The gateway answers 503 by itself meanwhile, in the form of its dialect, and only for addresses of its own.
      { gates: false },
    )
    health(() => {
      if (catalogue.current === undefined) throw new Error('the descriptors could not be read yet')
    })
    const gateway = new Gateway({
      catalogue,
      transport,
      upstreams,
      log,
      dialect: env.GATEWAY_DIALECT,
      gate: new Gate({
        apiKey: env.GATEWAY_API_KEY,
        requiredHeaders: env.GATEWAY_REQUIRED_HEADERS,
      }),
      corsOrigins: env.GATEWAY_CORS_ORIGINS,
      prefix: env.GATEWAY_PREFIX,
      legacyPrefixes: env.GATEWAY_LEGACY_PREFIXES.flatMap(
        (text) => readLegacyPrefix(text, startedAt) ?? [],
      ),
      ratePerMinute: env.GATEWAY_RATE_PER_MINUTE,
      deadlineMs: env.GATEWAY_DEADLINE_MS,
      holdsCredential,
    })
    return {
      serve: gateway.serve,
      queries: new Queries(catalogue, (...asked) => gateway.query(...asked)),
    }
  },

  prompt: ({ self }) => self.queries.prompt(),

  tools: {
    query_ledger: {
      description:
        'Asks the ledger. Give the method and its request as JSON; without a method the answer lists the methods with their fields.',
      effect: 'read',
      input: z.object({
        method: z
          .string()
          .optional()
          .describe('Service.Method as listed, for example "ledger.entity.v1.Query.Entity"'),
        about: z
          .string()
          .optional()
          .describe('Without a method: lists those whose names hold this'),
        request: z
          .record(z.string(), z.unknown())
          .default({})
          .describe('The fields of the request, by name'),
      }),
      run: ({ method, about, request }, { self, signal }) =>
        method === undefined ? self.queries.list(about) : self.queries.ask(method, request, signal),
    },
  },

  web: ({ self }) => ({
    '/ledger-page': builtView('/ledger-page/view.js', new URL('./built/view.js', import.meta.url)),
    '/': {
      handler: self.serve,
      // The gateway counts by itself, because the kernel's refusal has neither the form of its errors nor its CORS headers.
      limit: { max: Number.MAX_SAFE_INTEGER, perMs: 60_000 },
    },
  }),
  views: {
    ledger: {
      label: { en: 'Ledger', sw: 'Leja', fr: 'Registre comptable' },
      module: '/ledger-page/view.js',
      order: 50,
    },
  },
})
