import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import type {
  CutReply,
  FollowedSession,
  NewTurn,
  OpenSession,
  ReadMessages,
  ReadRun,
  TurnAnswer,
  WantedTurns,
  WhichTurn,
} from '../../plugin.ts'
import { isDid } from '../base/did-form.ts'
import { roomOfPlugin } from '../base/room-name.ts'
import { parseJson } from '../base/safe-json.ts'
import { clientNetwork } from '../http/limits/client-address.ts'
import { attachmentList, isLanguage, isTimeZone, messageText, modelName } from './message-fields.ts'
import type { Decision, TurnRequest } from './run.ts'

const metadataBytes = 8 * 1024
const attachmentBytes = 1024 * 1024
const instructionBytes = 36 * 1024
const quotedBytes = 64 * 1024
const mostQuoted = 100
const mostAllowed = 200
/** How many lines a client's history may have. Of these, a model reads the newest. */
const mostLines = 100_000
const toolBytes = 1024 * 1024

/** A turn that a plugin asks for, checked. */
export interface ReadTurn {
  readonly user: NewTurn['user']
  readonly delegation?: NewTurn['delegation']
  readonly session?: string
  readonly room?: string
  readonly shared?: boolean
  readonly requestId?: string
  readonly whenBusy: NonNullable<NewTurn['whenBusy']>
  /** The address for whose limits the turn counts, beside those of its user. */
  readonly address?: string
  readonly koa?: NewTurn['koa']
  readonly signal?: AbortSignal
  readonly reader?: AbortSignal
  readonly request: TurnRequest
}

/** Text that databases can store and UTF-8 can write. */
const plainText = z
  .string()
  .refine((text) => !text.includes('\0') && text.isWellFormed(), 'expected text without U+0000')
/** A name: the id of a session or of a request. */
const nameText = z
  .string()
  .min(1)
  .max(200)
  .refine((name) => !/\p{Cc}/u.test(name) && name.isWellFormed(), 'expected no control characters')
const bytesOf = (texts: readonly string[]) =>
  texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0)

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value)

const someUser = z.custom<NewTurn['user']>(
  (user) => isDid(Object(user).did),
  'expected a user, or an object with a did',
)

const saidLine = z.object({ role: z.enum(['user', 'assistant']), content: plainText })

/** Tools of a client. Whether a model may be offered them is checked where the app's own tools are known. */
const clientTools = z
  .array(
    z.object({
      name: z.string().max(200),
      description: z.string().default(''),
      schema: z
        .custom<Readonly<Record<string, unknown>>>(isObject, 'expected an object')
        .default({}),
      effect: z.enum(['read', 'write']).optional(),
    }),
  )
  .max(mostAllowed)

// Strict: an option that is spelt wrongly would be ignored without a word.
const fields = z.strictObject({
  user: someUser,
  delegation: z.literal('stored').optional(),
  session: nameText.optional(),
  room: z.string().optional(),
  shared: z.boolean().optional(),
  message: messageText.pipe(plainText),
  from: z.enum(['user', 'plugin']).default('user'),
  whenBusy: z.enum(['wait', 'refuse', 'interrupt']).default('wait'),
  // The runtime itself uses such ids for repetitions of quarantined runs.
  requestId: nameText
    .refine((name) => !name.startsWith('retry:'), 'expected a name that does not begin with retry:')
    .optional(),
  metadata: z.unknown().transform(json(isObject, metadataBytes)).optional(),
  attachments: attachmentList.transform(json(isList, attachmentBytes)).optional(),
  model: modelName.optional(),
  instructions: plainText
    .refine(
      (text) => bytesOf([text]) <= instructionBytes,
      `expected at most ${instructionBytes} bytes`,
    )
    .optional(),
  quoted: z
    .union([plainText.transform((text) => [text]), z.array(plainText).max(mostQuoted)])
    .refine((texts) => bytesOf(texts) <= quotedBytes, `expected at most ${quotedBytes} bytes`)
    .transform((texts) => texts.filter((text) => text.trim() !== ''))
    .optional(),
  allow: z.array(z.string().min(1).max(200)).max(mostAllowed).optional(),
  approvals: z.literal(['events', 'words', false]).optional(),
  history: z.array(saidLine).max(mostLines).optional(),
  ephemeral: z.boolean().optional(),
  tools: z.unknown().transform(json(isList, toolBytes)).pipe(clientTools.optional()).optional(),
  clientTools: z.enum(['wait', 'park']).optional(),
  whenAlone: z.strictObject({ stopAfterMs: z.int().min(100).max(86_400_000) }).optional(),
  timezone: z.string().max(100).refine(isTimeZone, 'expected an IANA time zone').optional(),
  language: z.string().refine(isLanguage, 'expected a BCP 47 language tag').optional(),
  koa: z
    .custom<NewTurn['koa']>((koa) => typeof Object(koa).ip === 'string', 'expected ctx.koa')
    .optional(),
  signal: z.instanceof(AbortSignal).optional(),
  reader: z.instanceof(AbortSignal).optional(),
})

/** Reads what a plugin asks for. Throws INPUT_INVALID before anything is made of a turn that cannot be. */
export function readNewTurn(plugin: string, turn: NewTurn): ReadTurn {
  const parsed = fields.safeParse(turn)
  if (!parsed.success) {
    const faults = faultsOf(parsed.error)
    throw refused(`The turn that ${plugin} starts cannot be: ${faultText(faults)}.`, { faults })
  }
  const { user, session, room, shared, requestId, whenBusy, koa, ...said } = parsed.data
  const { delegation, signal, reader } = said
  if (room !== undefined) roomOfPlugin(plugin, room)
  if (said.ephemeral && (session !== undefined || room !== undefined))
    throw refused(`The turn that ${plugin} starts is ephemeral, and names a session or a room.`)
  if (said.history && room !== undefined)
    throw refused(`The turn that ${plugin} starts has a history, and names a room.`)
  if (shared && room === undefined)
    throw refused(`The turn that ${plugin} starts is shared, and names no room.`)
  const { message, model, from, attachments, metadata, instructions, quoted, allow } = said
  const language = said.language ?? (koa && languageOf(koa))
  return {
    user,
    delegation,
    session,
    room,
    shared,
    requestId,
    whenBusy,
    signal,
    reader,
    koa,
    address: koa && clientNetwork(koa.ip),
    request: {
      message,
      model,
      metadata,
      attachments,
      origin: plugin,
      ...(from === 'plugin' && { from }),
      ...(koa && { source: 'http' as const }),
      ...(quoted?.length && { quoted }),
      ...(instructions?.trim() && { instructions: instructions.trim() }),
      ...(allow && { allow: [...new Set(allow)] }),
      ...(said.approvals !== undefined && { approvals: approvalsAs[String(said.approvals)] }),
      ...(said.history && { history: said.history }),
      ...(said.ephemeral && { ephemeral: true as const }),
      ...(said.whenAlone && { whenAlone: said.whenAlone }),
      ...(said.timezone && { timezone: said.timezone }),
      ...(language && { language }),
      ...(said.tools?.length && { tools: said.tools }),
      ...(said.clientTools === 'park' && { clientTools: 'park' as const }),
    },
  }
}

/** The language that a request would have first; undefined where it names none. */
function languageOf(koa: NonNullable<NewTurn['koa']>): string | undefined {
  const [first = ''] = koa.acceptsLanguages()
  return isLanguage(first) ? first : undefined
}

const approvalsAs: Readonly<Record<string, TurnRequest['approvals']>> = {
  events: true,
  words: 'words',
  false: 'never',
}

const longestReason = 500

/** How much a client may hand in at once, as JSON. */
const resultBytes = 4 * 1024 * 1024

const callAnswers = z
  .array(
    z.object({
      toolCallId: z.string().min(1).max(200),
      result: z.unknown().optional(),
      error: z.string().max(10_000).optional(),
    }),
  )
  .max(mostAllowed)

const answerFields = z.strictObject({
  user: someUser,
  runId: nameText,
  decision: z.enum(['approve', 'reject', 'edit']).optional(),
  args: z.unknown().transform(json(isObject, attachmentBytes)).optional(),
  reason: plainText.max(longestReason).optional(),
  results: z.unknown().transform(json(isList, resultBytes)).pipe(callAnswers.optional()).optional(),
  requestId: nameText.optional(),
  delegation: z.literal('stored').optional(),
  signal: z.instanceof(AbortSignal).optional(),
  reader: z.instanceof(AbortSignal).optional(),
})

const whichFields = z.strictObject({
  user: someUser,
  session: nameText,
  requestId: nameText.optional(),
})

const messagesFields = z.strictObject({
  user: someUser,
  session: nameText,
  limit: z.int().min(1).max(1_000).default(100),
  before: z.string().max(40).optional(),
})

const listFields = z.strictObject({
  user: someUser,
  session: nameText.optional(),
  runId: nameText.optional(),
  status: z
    .array(z.enum(['queued', 'running', 'waiting', 'finished', 'aborted', 'interrupted', 'failed']))
    .min(1)
    .optional(),
  limit: z.int().min(1).max(100).default(50),
  before: z.string().max(150).optional(),
})

const openFields = z.strictObject({
  user: someUser,
  session: nameText,
  newestBranch: z.boolean().default(false),
})

const followedFields = z.strictObject({
  user: someUser,
  session: nameText,
  since: nameText.optional(),
  signal: z.instanceof(AbortSignal).optional(),
})

const cutFields = z.strictObject({
  user: someUser,
  session: nameText,
  runId: nameText,
  chars: z.int().min(0),
  finishWrites: z.boolean().default(false),
})

const readFields = z.strictObject({
  user: someUser,
  runId: nameText,
  after: z.int().min(0).default(0),
  signal: z.instanceof(AbortSignal).optional(),
})

/** Reads which run a plugin reads again. */
export const readRun = (plugin: string, run: ReadRun): z.output<typeof readFields> =>
  parsedOr(plugin, 'run', readFields, run)

/** Reads which turns a plugin lists. */
export const readWanted = (plugin: string, wanted: WantedTurns): z.output<typeof listFields> =>
  parsedOr(plugin, 'turns', listFields, wanted)

/** Reads which messages a plugin reads. */
export const readMessagesOf = (
  plugin: string,
  read: ReadMessages,
): z.output<typeof messagesFields> => parsedOr(plugin, 'session', messagesFields, read)

/** Reads in which session a plugin looks what goes on. */
export const readOpen = (plugin: string, session: OpenSession): z.output<typeof openFields> =>
  parsedOr(plugin, 'session', openFields, session)

/** Reads which session a plugin follows. */
export const readFollowed = (plugin: string, followed: FollowedSession): FollowedSession =>
  parsedOr(plugin, 'session', followedFields, followed)

/** Reads where a plugin ends a reply. */
export const readCut = (plugin: string, reply: CutReply): z.output<typeof cutFields> =>
  parsedOr(plugin, 'reply', cutFields, reply)

/** Reads a person's answer as a plugin hands it in. */
export function readAnswer(
  plugin: string,
  answer: TurnAnswer,
): Pick<ReadTurn, 'user' | 'delegation'> & {
  readonly runId: string
  readonly decision: Decision
  readonly requestId?: string
  readonly signal?: AbortSignal
  readonly reader?: AbortSignal
} {
  const { decision, args, reason, results, ...which } = parsedOr(
    plugin,
    'answer',
    answerFields,
    answer,
  )
  if ((decision === undefined) === (results === undefined))
    throw refused(`The answer that ${plugin} hands in is either a decision or results.`)
  if (decision === undefined) return { ...which, decision: { decision: 'results', args: results } }
  if (decision === 'edit' && args === undefined)
    throw refused(`The answer that ${plugin} hands in edits a call, and has no args.`)
  const why = decision === 'reject' && reason !== undefined ? { reason } : undefined
  const told = { decision, args: decision === 'edit' ? args : why }
  return { ...which, decision: told }
}

/** Reads which turns of a session a plugin means. */
export function readWhich(plugin: string, which: WhichTurn): WhichTurn {
  return parsedOr(plugin, 'turn', whichFields, which)
}

function parsedOr<S extends z.ZodType>(
  plugin: string,
  what: string,
  schema: S,
  given: unknown,
): z.output<S> {
  const parsed = schema.safeParse(given)
  if (parsed.success) return parsed.data
  const faults = faultsOf(parsed.error)
  throw refused(`The ${what} that ${plugin} names cannot be: ${faultText(faults)}.`, { faults })
}

/** Makes JSON of a value and a value of the JSON again: what the turn keeps is what every process will read. */
function json<T>(isMeant: (value: unknown) => value is T, mostBytes: number) {
  return (value: unknown, ctx: z.core.$RefinementCtx): T | undefined => {
    const fault = (message: string) => {
      ctx.addIssue({ code: 'custom', message })
      return undefined
    }
    if (value === undefined) return undefined
    try {
      const text = JSON.stringify(value) ?? ''
      if (Buffer.byteLength(text) > mostBytes)
        return fault(`expected at most ${mostBytes} bytes of JSON`)
      const parsed = parseJson(text)
      return isMeant(parsed) ? parsed : fault('expected an object')
    } catch (error) {
      return fault(
        error instanceof RuntimeError ? error.message.replace(/\.$/, '') : 'expected JSON',
      )
    }
  }
}

const refused = (message: string, details?: unknown) =>
  new RuntimeError('INPUT_INVALID', message, { details })
