import { z } from 'zod'
import { allowedHostForms, readAllowedHosts } from './allowed-hosts.ts'
import { environments } from './env.ts'

/** How many bytes the instructions of an app may have: every call of the model carries them. */
export const mostInstructionBytes = 16 * 1024

/** What is wrong with the instructions of an app, in a sentence; undefined when nothing is. */
export function instructionsFault(text: unknown): string | undefined {
  if (typeof text !== 'string') return 'The instructions are no text.'
  const bytes = Buffer.byteLength(text)
  if (bytes <= mostInstructionBytes) return undefined
  return `The instructions have ${bytes} bytes, and may have ${mostInstructionBytes}.`
}

const hosts = z.string().transform((text, context) => {
  const hosts = readAllowedHosts(text)
  if (!hosts) context.addIssue({ code: 'custom', message: allowedHostForms })
  return hosts ?? []
})
const perMinute = count(1, 1_000_000_000)
const onOff = z
  .enum(['on', 'off', 'true', 'false'], 'on or off')
  .transform((word) => word === 'on' || word === 'true')

const periodForm = 'a number of minutes, hours or days, such as 30m, 24h or 7d'
const periods: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A time such as 24h, in milliseconds. */
const period = z
  .string()
  .regex(/^[1-9]\d{0,3}[mhd]$/, periodForm)
  .transform((text) => parseInt(text, 10) * (periods[text.slice(-1)] ?? 0))

/** A number with commas. A locale would do it as well, but to load the first one takes a fiftieth of a start. */
function inThousands(number: number): string {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ',')
}

/** A whole number in digits within bounds. The bounds catch typing errors: no operator means a billion sockets. */
function count(min: number, max: number) {
  return inDigits(
    min,
    max,
    `a whole number from ${inThousands(min)} to ${inThousands(max)}, in digits`,
  )
}

/** A whole number in plain digits: a number of JavaScript may also be written `0x10`, `1e3` or with a blank. */
function inDigits(min: number, max: number, says: string) {
  return z
    .string(says)
    .regex(/^\d{1,12}$/, says)
    .transform(Number)
    .pipe(z.number().min(min, says).max(max, says))
}

const ports = 'a port from 0 to 65535, in digits'
const shares = 'a number from 0 to 1'
const retention = 'a number of hours above 0, at most 876,000'
const drainLimits = 'a whole number of milliseconds from 0 to 600,000'
const loopLimits = 'a whole number of milliseconds from 0 to 3,600,000'

/** The kernel's own environment. `docs/operate.md` and `npm run env` are made from it. */
export const kernelEnv = {
  NODE_ENV: z
    .enum(environments, 'development, test or production')
    .default('development')
    .describe(
      'development, test or production. Unset, only this machine can reach the server; ' +
        'in production nothing is generated and HOST defaults to 0.0.0.0',
    ),
  PORT: inDigits(0, 65535, ports)
    .default(3000)
    .describe('Where the server listens; 0 takes a free port'),
  HOST: z.string().optional().describe('Default 127.0.0.1, in production 0.0.0.0'),
  DATA_DIR: z
    .string()
    .default('.data')
    .describe('Where the embedded database and generated secrets live'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'a postgres:// URL')
    .optional()
    .meta({ secret: true, description: 'Selects PostgreSQL in place of the embedded SQLite' }),
  DATABASE_LISTEN_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'a postgres:// URL')
    .optional()
    .meta({
      secret: true,
      description:
        'The same database without a pooler between, for the one connection that hears other replicas',
    }),
  DATABASE_POOL: count(1, 1_000)
    .default(10)
    .describe('How many connections to PostgreSQL the queries of this process share'),
  REDIS_URL: z
    .string()
    .regex(/^rediss?:\/\//, 'a redis:// URL')
    .optional()
    .meta({
      secret: true,
      description:
        'Shares rate limits between replicas; carries their messages where LISTEN is not heard',
    }),
  BUS_URL: z
    .string()
    .regex(/^(nats|tls|rediss?):\/\/[^/?]/, 'a nats:// or redis:// URL')
    .optional()
    .meta({
      secret: true,
      description:
        'Carries the messages of many replicas beside PostgreSQL: nats://host:4222, several hosts with commas between, or redis://',
    }),
  MODEL: z
    .string()
    .optional()
    .describe(
      'The models that users choose from, the default first: [alias=]provider/name[|provider/name…] with commas ' +
        'between; what follows a | takes over. Unset, the stand-in answers',
    ),
  MODEL_SMALL: z
    .string()
    .optional()
    .describe('The model of summaries and of answers in JSON; by default the model of the turn'),
  MODEL_SETTINGS: z
    .string()
    .optional()
    .describe('How models are asked, by id: JSON, or the path of a file with it'),
  MODEL_CONTEXT_WINDOW: count(1000, 100_000_000)
    .optional()
    .describe('How many tokens a model reads whose settings do not say so'),
  MODEL_SUMMARY: onOff
    .default(true)
    .describe(
      'off: the oldest messages of a conversation that its model cannot read are left out, without a summary of them',
    ),
  EMBEDDING_MODEL: z
    .string()
    .optional()
    .describe(
      'What makes vectors of texts: provider/name, or lexical, the default, which needs no model and finds what is written alike',
    ),
  ORACLE_NAME: z.string().default('Oracle').describe('What clients show'),
  ORACLE_INSTRUCTIONS: z
    .string()
    .refine((text) => instructionsFault(text) === undefined, 'at most 16 KiB of text')
    .optional()
    .describe(
      'Who the agent is and how it speaks: stands in the system prompt before the lines of plugins',
    ),
  ORACLE_INSTRUCTIONS_FILE: z
    .string()
    .optional()
    .describe(
      'Path of a text file with these instructions, at most 16 KiB, in place of the text itself',
    ),
  ORACLE_DID: z
    .string()
    .regex(/^did:[a-z0-9]+:.+/, 'a DID')
    .optional()
    .describe('Default: the did:key of the signer'),
  ORACLE_ENTITY_DID: z
    .string()
    .regex(/^did:[a-z0-9]+:.+/, 'a DID')
    .optional()
    .describe('The oracle’s entity on chain'),
  ORACLE_MNEMONIC: z.string().optional().meta({
    secret: true,
    generate: 'mnemonic',
    description: 'Signing key; without it every authenticated request is 401',
  }),
  API_KEY: z.string().optional().meta({
    secret: true,
    generate: 'hex32',
    description: 'Key of bearer routes: one value, or name:value,name:value',
  }),
  OPERATOR_TOKEN: z.string().optional().meta({
    secret: true,
    generate: 'hex32',
    description: 'Key of operator routes, in the same form',
  }),
  ACCESS: z
    .enum(['open', 'granted'], 'open or granted')
    .default('open')
    .describe('granted: only DIDs with the grant oracle/call may talk to the agent'),
  FEATURES: z.string().optional().describe('name=off,other=on: never loaded, force-loaded'),
  TRUST_PROXY_ENABLED: z
    .enum(['true', 'false'], 'true or false')
    .transform((word) => word === 'true')
    .default(false)
    .describe('true: the client address is the rightmost X-Forwarded-For hop'),
  CORS_ORIGIN: z
    .string()
    .default('*')
    .describe('Origins that browsers may call from, separated by commas'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('How much is logged'),
  REQUEST_LOG: z
    .enum(['all', 'errors', 'off'], 'all, errors or off')
    .default('all')
    .describe(
      'Which requests leave a line in the log when they end; errors: what failed or was slow',
    ),
  REQUEST_LOG_SAMPLE: z.coerce
    .number(shares)
    .min(0, shares)
    .max(1, shares)
    .default(1)
    .describe('The share of successful requests that leave a line'),
  SLOW_MS: count(1, 3_600_000)
    .default(2000)
    .describe('A request that takes longer, in milliseconds, always leaves a line'),
  METRICS_PORT: inDigits(0, 65535, ports)
    .optional()
    .describe('Serves GET /metrics without a token on a port of its own; 0 takes a free one'),
  METRICS_HOST: z
    .string()
    .default('127.0.0.1')
    .describe('The address of that port: who reaches it reads the figures'),
  LOG_IP: onOff.default(false).describe('on: the lines of requests name the client’s address'),
  LOG_DIDS: onOff
    .default(false)
    .describe('on: the lines of requests name users by their whole DID, not its last 8 characters'),
  UCAN_AUTH_MAX_TTL_SECONDS: z.coerce
    .number()
    .int()
    .positive()
    .default(900)
    .describe('The longest life of an invocation'),
  RATE_LIMIT_PER_MINUTE: perMinute
    .default(600)
    .describe('Requests per address; a route may set its own'),
  AUTH_FAILURES_PER_MINUTE: perMinute
    .default(60)
    .describe('401s per address before they become 429'),
  CALLS_PER_MINUTE: perMinute.default(600).describe('Authenticated calls per DID'),
  TURNS_AT_ONCE: count(1, 1_000_000).default(4).describe('Turns of one DID under way at once'),
  TURNS_PER_DAY: count(1, 1_000_000)
    .default(500)
    .describe('Turns that one DID may begin in a day (UTC)'),
  ADDRESS_FACTOR: count(1, 1_000_000)
    .default(25)
    .describe(
      'An address may have so many times the turns of one DID: offices and phone networks share addresses',
    ),
  TURNS_AT_ONCE_TOTAL: count(1, 1_000_000)
    .default(1000)
    .describe('Turns under way at once in this process'),
  SOCKETS_PER_DID: count(1, 1_000_000).default(20).describe('Sockets of one DID'),
  SOCKETS_PER_ADDRESS: count(1, 1_000_000).default(500).describe('Sockets of one address'),
  STREAMS_PER_ADDRESS: count(1, 1_000_000)
    .default(500)
    .describe('Event streams that one address may read at once'),
  CONNECTIONS_TOTAL: count(10, 1_000_000)
    .default(10_000)
    .describe('Connections of this process, at most four fifths of the files that it may open'),
  UPLOAD_MIN_BYTES_PER_S: count(1, 1_000_000_000)
    .default(4096)
    .describe(
      'How many bytes a second a body over 1 MiB may bring at least, over 30 seconds: a route that takes such bodies ' +
        'waits for them as long as they come at this pace, and answers 408 when they do not',
    ),
  PUBLIC_URL: z.url().optional().describe('What clients are told; default http://HOST:PORT'),
  ORACLE_PRICE: z.string().optional().describe('What clients are told a call costs'),
  RESOLVER_URL: z.url().optional().describe('W3C DID resolver for did:ixo'),
  OUTBOUND_ALLOW: hosts
    .optional()
    .describe(
      'Hosts inside the network that webhooks may be sent to: name, *.name or address:port, with commas between',
    ),
  ATTACHMENT_HOSTS: hosts
    .optional()
    .describe(
      'The only hosts from which attachments are fetched by their address, in the same form; unset: every public host',
    ),
  FILES_PER_USER_MB: count(1, 1_000_000)
    .default(200)
    .describe('How many MiB the files of one user may have together'),
  AUTH_DELEGATION_ONLY: onOff
    .default(true)
    .describe('off: a delegation without an invocation does not authenticate'),
  BACKUP_DIR: z
    .string()
    .optional()
    .describe('A directory into which the embedded database is copied while the server runs'),
  BACKUP_EVERY: period
    .optional()
    .describe('The time between two copies into BACKUP_DIR, such as 30m or 7d; by default 24h'),
  BACKUP_KEEP: count(1, 10_000)
    .default(7)
    .describe('How many copies BACKUP_DIR keeps; older ones are deleted'),
  DRAIN_MS: z.coerce
    .number(drainLimits)
    .int(drainLimits)
    .min(0, drainLimits)
    .max(600_000, drainLimits)
    .default(0)
    .describe(
      'How long the server goes on serving after it was asked to stop, while /readyz says 503',
    ),
  RUN_LEASE_MS: count(100, 600_000)
    .default(10_000)
    .describe('A run whose process is silent this long is taken over'),
  RUNS_PER_PROCESS: count(1, 1_000_000)
    .default(500)
    .describe('How many runs a process carries at most when it takes over what others left'),
  EVENT_LOOP_LIMIT_MS: z.coerce
    .number(loopLimits)
    .int(loopLimits)
    .min(0, loopLimits)
    .max(3_600_000, loopLimits)
    .default(10_000)
    .describe('A process whose event loop stands still this long is ended (exit 70); 0 never'),
  RUN_RETENTION_HOURS: z.coerce
    .number(retention)
    .positive(retention)
    .max(876_000, retention)
    .default(72)
    .describe('How long finished runs can be replayed'),
  APPROVAL_RETENTION_DAYS: count(1, 36_500)
    .default(30)
    .describe('How long a run waits for a person; then it ends, and its user gets a notice'),
  SESSION_RETENTION_DAYS: count(0, 36_500)
    .default(0)
    .describe(
      'How long a session is kept that nobody uses, with all that belongs to it; 0 for ever',
    ),
  JOB_RETENTION_DAYS: count(1, 36_500)
    .default(7)
    .describe(
      'How long done jobs are kept; dead ones stay 30 days, or as long as this if it is longer',
    ),
  NOTICE_RETENTION_DAYS: count(1, 36_500).default(30).describe('How long notices are kept'),
  RUN_TRACE: onOff
    .default(true)
    .describe('off: the journal does not keep how long the steps of runs took'),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .optional()
    .describe(
      'Where spans go by OTLP over HTTP, with an SDK of OpenTelemetry that the app installs',
    ),
  OTEL_PROPAGATE_TO: hosts
    .optional()
    .describe(
      'Hosts whose requests by plugins carry the span of the turn, as OUTBOUND_ALLOW names hosts',
    ),
  OTEL_CAPTURE_CONTENT: onOff
    .default(false)
    .describe(
      'on: spans hold the words of conversations, and what tools were given and gave, for whoever reads the traces',
    ),
  JOBS_CONCURRENCY: count(1, 1_000)
    .default(8)
    .describe('Jobs of plugins that run at once in this process'),
  AUDIT_TABLE: onOff
    .default(false)
    .describe('on: the audit lines are kept in the database too, for `GET /audit`'),
  AUDIT_RETENTION_DAYS: z.coerce
    .number()
    .int()
    .min(1)
    .max(36_500)
    .default(365)
    .describe('How long the database keeps audit lines'),
  PROMPT_BUDGET_MS: count(1, 600_000)
    .default(500)
    .describe('How long the async prompts of all plugins may take together, once a turn'),
  TURN_MAX_CALLS: count(1, 1000)
    .default(25)
    .describe(
      'How often a turn calls its model before it stops; a sub-agent may not call its own more often',
    ),
  STEP_MAX_CALLS: count(1, 1000)
    .default(64)
    .describe('How many tool calls of one answer are carried out; the model is told of the others'),
  TOOL_TIMEOUT_MS: count(1, 3_600_000)
    .default(120_000)
    .describe('How long a call of a tool may take, in milliseconds; a tool may set its own'),
  BROWSER_TOOL_TIMEOUT_MS: count(1, 3_600_000)
    .default(60_000)
    .describe('How long a browser may take to answer a tool call'),
}

/** The kernel's environment, parsed. */
export type KernelEnv = { [K in keyof typeof kernelEnv]: z.output<(typeof kernelEnv)[K]> }
