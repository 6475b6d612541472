import { z } from 'zod'
import { type OfferedModels, RuntimeError } from '#core'
import { untilIn } from './keeping/dates.ts'
import { filledBy } from './keeping/rules.ts'
import { byHand, isNamed, refused } from './keeping/refusals.ts'
import { ownerOf, type Remembering, whereOf } from './remembering.ts'
import { type Kept, type Memory, holdsAt, never } from './kept/memory.ts'
import type { Passage } from './kept/passages.ts'
import { carried, type Spoken, spokenBefore } from './keeping/spoken.ts'
import { kinds } from './routes/shapes.ts'
import { plain } from './words/text.ts'
import { tellsSecret } from './words/secrets.ts'
import { isSlot, slots } from './words/slots.ts'
import { dayOf } from './using/lines.ts'
import { askedVector } from './using/vectors.ts'

/** How much of a sentence has to stand in the person's own words, so that nobody else is behind it. */
const leastSupport = 0.6
const mostFound = 10
const dayMs = 86_400_000

/** What a tool reaches of its turn. */
export interface ToolTurn {
  readonly user: { readonly did: string }
  readonly session: { readonly id: string }
  readonly requestId: string
  readonly room: string
  readonly shared: boolean
  readonly message: string
  readonly approvals: 'events' | 'words' | false
  readonly callKey: string
  readonly models: OfferedModels
  readonly signal: AbortSignal
  readonly self: Remembering
}

const rememberInput = z.object({
  text: z.string().min(1).max(1_000),
  about: z.string().trim().min(1).max(80).optional(),
  kind: z.enum(kinds).optional(),
  slot: z
    .string()
    .max(40)
    .optional()
    .describe(`What it fills, if it fits one of ${Object.keys(slots).join(', ')}`),
  value: z.string().max(200).optional().describe('What fills the slot'),
  until: z.iso.date().optional(),
})
const recallInput = z.object({
  query: z.string().max(2_000).optional(),
  from: z.iso.date().optional(),
  to: z.iso.date().optional(),
  about: z.string().max(80).optional(),
  history: z.boolean().optional(),
  in: z.enum(['memories', 'conversations', 'both']).optional(),
})
const forgetInput = z.object({ ids: z.array(z.string().min(1).max(60)).min(1).max(50) })
const settingsInput = z.object({
  mode: z.enum(['on', 'paused', 'off']).optional(),
  incognito: z.boolean().optional(),
})

const schemaOf = (schema: z.ZodType): Readonly<Record<string, unknown>> => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' })
  return rest
}
// Made once: every turn offers them.
const parameters = {
  remember: schemaOf(rememberInput),
  recall: schemaOf(recallInput),
  forget: schemaOf(forgetInput),
  settings: schemaOf(settingsInput),
}

function parsed<S extends z.ZodType>(schema: S, args: unknown): z.output<S> {
  const found = schema.safeParse(args)
  if (found.success) return found.data
  throw new RuntimeError('INVALID_INPUT', z.prettifyError(found.error), {
    hint: 'Mend the arguments and call the tool again.',
  })
}

/** What a person is asked before anything is remembered. */
const firstQuestion = 'Shall I remember things about you from now on?'

/** Whether a person has to be asked before a sentence is remembered; before the first one, by which question. */
async function mustAsk(args: unknown, ctx: ToolTurn): Promise<boolean | string> {
  if (ctx.approvals === false) return false
  const { text, about = '', value = '' } = parsed(rememberInput, args)
  if ((await ctx.self.modeIn(whereOf(ctx))) === 'ask') return firstQuestion
  return (await evidenceOf(`${text} ${value} ${about}`, ctx)) === undefined
}

/** What the person says in this turn. */
const nowIn = ({ self: { now: at }, message, callKey }: ToolTurn): Spoken => ({
  words: message,
  at,
  runId: callKey || byHand(at, '').runId,
})

/** The message of this session in which the person said a sentence, or most of it; undefined where they did not. */
async function evidenceOf(sentence: string, ctx: ToolTurn): Promise<Spoken | undefined> {
  const { self } = ctx
  const now = nowIn(ctx)
  if (carried(sentence, [now]).share >= leastSupport) return now
  const { share, by } = carried(sentence, [now, ...(await spokenBefore(self, whereOf(ctx)))])
  return share >= leastSupport ? by : undefined
}

async function remember(args: unknown, ctx: ToolTurn) {
  const { self } = ctx
  const { text, about = 'me', kind = 'fact', until, ...given } = parsed(rememberInput, args)
  const { slot, value } =
    given.slot === undefined && about === 'me' ? { ...given, ...filledBy(text) } : given
  if (slot !== undefined && !isSlot(slot)) throw refused('unknown-slot')
  const where = whereOf(ctx)
  await self.countWrite(where.did)
  const mode = await self.modeIn(where)
  if (mode === 'ask' && ctx.approvals === false)
    throw new RuntimeError(
      'MEMORY_ASK',
      'The person has not said yet whether anything may be remembered.',
      {
        status: 409,
        hint: 'Tell them that they can switch memory on: PUT /memory/settings {"mode": "on"}, or in the view Memory.',
      },
    )
  if (mode === 'ask') await self.choose(where.did, { mode: 'on' })
  else if (mode !== 'on')
    throw new RuntimeError('MEMORY_OFF', `Nothing is remembered here: memory is ${mode}.`, {
      status: 409,
    })
  const evidence = await evidenceOf(`${text} ${value ?? ''} ${about}`, ctx)
  if (ctx.approvals === false && !evidence) throw refused('no-evidence')
  const at = self.now
  const { sensitive } = await self.settingsOf(where.did)
  // Without evidence the person said yes to the sentence, in this turn.
  const { words, ...place } = evidence ?? nowIn(ctx)
  const said = {
    sessionId: where.sessionId,
    ...place,
    // A message may tell more than what was asked for: a secret in it is no evidence that is kept.
    quote: tellsSecret(words) ? text.trim() : words.slice(0, 240).toWellFormed(),
  }
  const ends = endOf(text, words, until, at)
  const kept = await self.remember(
    ownerOf(where),
    {
      text: text.trim(),
      about,
      kind,
      slot: slot ?? null,
      value: value ?? '',
      by: 'asked',
      until: ends,
    },
    said,
    sensitive,
  )
  return {
    told: toldOf(kept),
    remembered: kept.memory && shown(kept.memory),
    ...(kept.outcome === 'confirmed' && { known: true }),
    ...(kept.replaced.length > 0 && { replaced: kept.replaced.map(shown) }),
  }
}

/** What became of it, as a sentence for the person. */
function toldOf({ outcome, memory, replaced }: Kept): string {
  const known = outcome === 'confirmed' ? 'I knew this already' : 'I remember from now on'
  const before = replaced.map(({ text }) => `“${text}”`).join(', ')
  return `${known}: “${memory?.text ?? ''}”.${before === '' ? '' : ` It replaces ${before}.`}`
}

const namesAnEnd = /\b(until|till|through|by|for the next|hadi|mpaka|jusqu'a|jusqu'au)\b/

/** When what is remembered ends. A date that a model names counts where the person said that there is an end. */
function endOf(text: string, message: string, named: string | undefined, at: number) {
  const said = untilIn(text, undefined, at) ?? untilIn(message, undefined, at)
  if (said !== null || named === undefined || !namesAnEnd.test(plain(`${text} ${message}`)))
    return said
  const end = Date.parse(named) + dayMs
  return end > at ? end : null
}

async function recall(args: unknown, ctx: ToolTurn) {
  const { query, from, to, about, history = false, in: where = 'both' } = parsed(recallInput, args)
  const { self } = ctx
  const at = self.now
  const owner = ownerOf(whereOf(ctx))
  const [since, till] = [from ? Date.parse(from) : 0, to ? Date.parse(to) + dayMs : never]
  const said =
    where === 'memories' || ctx.shared || (where === 'both' && query === undefined)
      ? undefined
      : await self.passages.find(self.db, owner, { question: query, from: since, to: till })
  const conversations = said?.slice(0, mostFound).map(heard)
  if (where === 'conversations') return { conversations: conversations ?? [] }
  const index = await self.indexOf(owner)
  const vector = query === undefined ? undefined : await askedVector(ctx.models, query, ctx.signal)
  const found =
    query === undefined ? [...index.memories].reverse() : index.find(query, at, history, vector)
  const memories = found
    .filter((one) => history || holdsAt(one, at))
    .filter((one) => about === undefined || one.about === about)
    .filter((one) => one.valid_from < till && (one.valid_to ?? never) > since)
    .slice(0, mostFound)
  return { memories: memories.map(shown), ...(conversations && { conversations }) }
}

/** How many characters of what was said a model reads. */
const mostHeard = 500

/** What the person said, as the model reads it. What was answered may repeat words of others, so the model does not read that. */
const heard = ({ words, at, sessionId }: Passage) => ({
  said: words.slice(0, mostHeard).toWellFormed(),
  on: dayOf(at),
  session: sessionId,
})

/** The memories that the model names. */
async function meantBy(args: unknown, { self }: ToolTurn, owner: string): Promise<Memory[]> {
  const { ids } = parsed(forgetInput, args)
  const index = await self.indexOf(owner)
  return index.memories.filter((one) => ids.some((name) => isNamed(one, name)))
}

/** The question with the sentences that would go; false where there are none, so that nobody is asked for nothing. */
async function forgetQuestion(args: unknown, ctx: ToolTurn): Promise<false | string> {
  if (ctx.approvals === false) return false
  const meant = await meantBy(args, ctx, ownerOf(whereOf(ctx)))
  const sentences = meant.map(({ text }) => `“${text}”`).join(', ')
  return meant.length > 0 && `Shall I erase this for good: ${sentences}?`
}

async function forget(args: unknown, ctx: ToolTurn) {
  const { self } = ctx
  const owner = ownerOf(whereOf(ctx))
  await self.countWrite(ctx.user.did)
  const meant = await meantBy(args, ctx, owner)
  if (meant.length === 0) throw new RuntimeError('NOT_FOUND', 'There is no such memory.')
  const { gone, sessions } = await self.erase(
    owner,
    meant.map(({ id }) => id),
  )
  return {
    erased: gone.length,
    note: 'The conversations still hold the words; the person can delete these sessions.',
    sessions: sessions.map((id) => `DELETE /sessions/${id}`),
  }
}

async function settings(args: unknown, ctx: ToolTurn) {
  const { mode, incognito } = parsed(settingsInput, args)
  const { self } = ctx
  const { did, sessionId } = whereOf(ctx)
  await self.countWrite(did)
  if (mode === 'on' && ctx.approvals === false)
    throw new RuntimeError(
      'MEMORY_ASK',
      'Only the person can switch memory on, and cannot be asked here.',
      {
        status: 409,
        hint: 'Tell them where: PUT /memory/settings {"mode": "on"}, or in the view Memory.',
      },
    )
  if (incognito !== undefined) await self.setIncognito(did, sessionId, incognito)
  const now = mode ? await self.choose(did, { mode }) : await self.settingsOf(did)
  return { mode: now.mode, incognito: await self.isIncognito(did, sessionId) }
}

/** A memory as the model reads it. */
const shown = ({ n, text, kind, slot, about, by, valid_from, valid_to, until }: Memory) => ({
  id: `m${n}`,
  text,
  kind,
  ...(slot !== null && { slot }),
  ...(about !== 'me' && { about }),
  since: dayOf(valid_from),
  ...(valid_to !== null && { until: dayOf(valid_to) }),
  ...(valid_to === null && until !== null && { until: dayOf(until) }),
  known: by,
})

/** A tool as a turn is offered it. */
interface OfferedTool {
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly effect: 'read' | 'write'
  readonly foreign?: false
  approve?(args: unknown, ctx: ToolTurn): boolean | string | Promise<boolean | string>
  run(args: unknown, ctx: ToolTurn): unknown
}

const settingsTool: OfferedTool = {
  description:
    'Changes how the oracle remembers this person: mode on, paused (known things are used, nothing new is kept) or off; ' +
    'incognito keeps this session out of memory. Only when the person asks for it.',
  parameters: parameters.settings,
  effect: 'write',
  approve: (args, { approvals }) =>
    approvals !== false && parsed(settingsInput, args).mode === 'on' && firstQuestion,
  // Two words of ours.
  foreign: false,
  run: settings,
}
const rememberTool: OfferedTool = {
  description:
    'Remembers one thing for later sessions, when the person asks for it ("remember that ..."). text: one short sentence in their own ' +
    'words.',
  parameters: parameters.remember,
  effect: 'write',
  approve: mustAsk,
  // Hands back the sentence, and what it replaces: the person's own words.
  foreign: false,
  run: remember,
}
const recallTool: OfferedTool = {
  description: [
    'Looks up what this person has told before: memories, and what they said in conversations',
    '(in: memories, conversations or both). history: also what held earlier and holds no more ("where did I live in May").',
  ].join(' '),
  parameters: parameters.recall,
  effect: 'read',
  // The words of the very person who speaks, each checked before it was kept.
  foreign: false,
  run: recall,
}
const forgetTool: OfferedTool = {
  description: 'Erases memories for good, by their ids (m12). The person sees and approves it.',
  parameters: parameters.forget,
  effect: 'write',
  approve: forgetQuestion,
  // Hands back ids, or the person's own words.
  foreign: false,
  run: forget,
}
// Whoever offers the same tools to every turn, and cannot change them, has them read once.
for (const tool of [settingsTool, rememberTool, recallTool, forgetTool]) frozen(tool)

function frozen(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  Object.freeze(value)
  for (const inner of Object.values(value)) frozen(inner)
}

/** The tools that a turn has, by how the person lets the oracle remember. */
export async function toolsOf(ctx: ToolTurn): Promise<Readonly<Record<string, OfferedTool>>> {
  const { mode } = await ctx.self.standingOf('tools', whereOf(ctx), ctx.requestId)
  const personal: Record<string, OfferedTool> = ctx.shared ? {} : { memory_settings: settingsTool }
  if (mode === 'off' || mode === 'incognito') return personal
  if (mode === 'ask') return { remember: rememberTool, ...personal }
  return {
    recall: recallTool,
    ...(mode === 'on' && { remember: rememberTool }),
    forget: forgetTool,
    ...personal,
  }
}
