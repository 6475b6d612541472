import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import { faultsOf, faultText } from '../../../manifest/faults.ts'
import { notGranted } from '../../auth/grants/rights.ts'
import type { AnySubAgent, PendingCall, Schema, ToolCall } from '../../../plugin.ts'
import type { Facts } from '../../audit/line.ts'
import type { AuditCall } from './audit-call.ts'
import { retryTransient, type RepetitionGuard } from '../turn/guards.ts'
import { fieldsIn } from '../../base/fields.ts'
import { maxDepth, nestsTooDeep } from '../../base/safe-json.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type {
  Decision,
  Effects,
  ForeignSource,
  Results,
  ResultSource,
  WaitingCall,
} from '../../turns/run.ts'
import { saidNo } from '../../turns/events/said-no.ts'
import { reasonOf, sourcesText } from '../turn/consent.ts'
import { contentOfCall } from './call-content.ts'
import { recordedValue } from '../turn/result-parts.ts'
import { explained, recordedError, unreadable } from './tool-content.ts'
import type { ToolEntry } from './entry.ts'
import { inTime, undecided } from './in-time.ts'
import { ofTheRun } from './of-the-run.ts'
import { clientResultOf, handedIn } from '../turn/parked.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { turnContext, type Turn } from '../turn/turn.ts'

/** What a run gives to each of its calls. A call in a test's thread has none of it. */
export interface CallSite {
  /** Marks the writes of the run, so that none runs twice. */
  readonly effects?: Effects
  /** Keeps results that are too long for the model. */
  readonly results?: Results
  /** Resolves when the journal has the call; no write begins before. */
  readonly recorded?: () => Promise<void>
  /** What a person decided about a call; undefined when nobody has decided. */
  readonly decisionOn?: (toolCallId: string) => Decision | undefined
  /** The id of the call that started the sub-agent; undefined in the loop of the turn. */
  readonly within?: string
  readonly guard?: RepetitionGuard
  /** The tools that this loop alone has: of the client and of `toolsFor` in a turn, `return_result` in a sub-agent. */
  readonly turnTools?: ReadonlyMap<string, ToolEntry>
  /** The only tools that a sub-agent may call; undefined in the loop of the turn. */
  readonly only?: ReadonlySet<string>
  /** How much of a result is handed out, in bytes, in place of what the tool and the kernel say. */
  readonly maxResultBytes?: number
  /** Writes the audit line of a call. */
  readonly audit?: AuditCall
  /** Hears that the user's delegation did not allow a call, and whether that is because the user revoked the delegation. */
  readonly onDenied?: (isRevoked: boolean) => void
  /** Whether the delegation that the turn began with is revoked by now. */
  readonly isRevoked?: () => boolean | Promise<boolean>
  /** Runs a loop for a sub-agent. */
  readonly delegate?: (delegation: Delegation, calling: Calling) => Promise<unknown>
}

/** Work for a sub-agent. */
export interface Delegation {
  readonly subAgent: AnySubAgent
  /** The plugin that has the sub-agent. */
  readonly record: PluginRecord
  /** What the sub-agent is told, parsed. */
  readonly args: unknown
}

/** One call on its way through the onion. */
export interface Calling {
  readonly call: PendingCall
  readonly entry: ToolEntry
  readonly turn: Turn
  readonly site: CallSite
  /** What the tool's handler adds to the audit line. */
  readonly facts: Facts
  /** Fires when the turn is stopped or the tool has taken too long. Until the tool runs, this is the signal of the turn. */
  signal: AbortSignal
  /** Set when a person has to be asked first. It stands here and not in an error, so that no layer of the onion can hide it. */
  waits?: WaitingCall
  /** Set when the run cannot go on: the database failed, or another process carries the run. */
  fault?: { readonly error: unknown }
  /** The sentence that tells the model how a person changed the arguments. */
  edited?: string
  /** Set when the tool itself began: a result or an error from here on, even a refusal, is in the words of the tool. */
  begun?: true
  /**
   * Set when a sub-agent has read words of others, or a page of a kept result holds some: the result then holds them,
   * though the tool is not declared `foreign`. For the page it says whose words they are.
   */
  foreign?: true | ResultSource
  /** The result that was too long, and what the model reads of it. */
  cut?: { readonly value: unknown; readonly content: string }
}

/** The core of the onion. It checks the user's rights, a person's consent and whether the write ran before, then runs the tool. */
export async function execute(calling: Calling): Promise<unknown> {
  await checkCan(calling)
  await seekApproval(calling)
  const { entry, turn } = calling
  if (entry.client?.isParked) return parked(calling)
  const attempt = async () => {
    underWay(`tool ${calling.call.name} of ${entry.record?.name ?? 'the kernel'}`)
    calling.begun = true
    const value = await entry.run(calling.call.args, calling)
    if (entry.record) refuseUnreadable(calling, entry.record, value)
    return entry.tool?.output ? await z.parseAsync(entry.tool.output, value) : value
  }
  const run = async () => {
    await entry.count?.(turn.user.did)
    // Only what a plugin declared has a time: a client's tool waits for its page.
    if (entry.timeoutMs === undefined) return await attempt()
    return await inTime(calling, entry.timeoutMs, (signal) => {
      calling.signal = signal
      return retryTransient(attempt, entry.retry, signal)
    })
  }
  return entry.effect === 'read' ? await run() : await atMostOnce(calling, run)
}

/** Refuses a result that the model would read as `{}`. The tool has done its work, so the model is not told that it failed. */
function refuseUnreadable({ call, turn }: Calling, record: PluginRecord, value: unknown): void {
  const [what, instead] = unreadable(value) ?? []
  if (what === undefined) return
  record.base?.log.error(
    { tool: call.name, requestId: turn.requestId },
    `The tool "${call.name}" returned ${what}, which the model cannot read: return ${instead}`,
  )
  throw new RuntimeError(
    'INTERNAL',
    `"${call.name}" was carried out, and its result cannot be read.`,
    {
      hint: 'Do not repeat the call; tell the user. The log has the cause.',
    },
  )
}

/** A call that its client carries out while the run stands still: its result comes with what the client hands in. */
function parked(calling: Calling): unknown {
  const { call, site } = calling
  const answer = handedIn(site.decisionOn?.(call.id), call.id)
  if (answer === undefined)
    throw waitFor(calling, {
      toolCallId: call.id,
      toolName: call.name,
      args: call.args,
      kind: 'client',
    })
  calling.begun = true
  return clientResultOf(fieldsIn(answer))
}

async function checkCan({ entry: { tool, record }, call, turn, site }: Calling): Promise<void> {
  if (!record) return
  // The operator may have taken a right back during the turn. Tools that check rights in their own code need the new state too.
  await turn.rights?.refresh(turn.user.did)
  if (!tool?.can) return
  const { can, with: resourceOf } = tool.can
  const resource = resourceOf?.(call.args, turnContext(record, turn, call)) ?? turn.user.did
  const may = turn.user.can(can, resource)
  const byGrant =
    resource === turn.rights?.oracleDid && turn.rights.granted(turn.user.did, can) === true
  // The user may have revoked the delegation since the turn began.
  const isRevoked = may && !byGrant && (await site.isRevoked?.()) === true
  if (may && !isRevoked) return
  // Only the operator grants rights on the oracle's DID, so the client is not asked for a delegation of the user.
  if (resource === turn.rights?.oracleDid)
    throw notGranted(turn.user, can, resource, `"${call.name}"`)
  site.onDenied?.(isRevoked)
  throw new RuntimeError(
    'FORBIDDEN',
    `The user's delegation does not grant "${can}" on ${resource}.`,
    {
      hint: 'Ask the user to authorise the call, then try again.',
      details: {
        causes: isRevoked
          ? [`The delegation of ${turn.user.did} was revoked.`]
          : turn.user.denial(can, resource),
      },
    },
  )
}

async function seekApproval(calling: Calling): Promise<void> {
  const { entry, call, turn, site } = calling
  const approve = entry.tool?.approve
  // A call in a test's thread has no person to ask, and `approve: false` declares that the tool needs no consent.
  if (!site.decisionOn || approve === false) return
  const decided = site.decisionOn(call.id)
  if (!decided) {
    const foreign = foreignBehind(calling)
    const asksItself = await asksOfItself(calling)
    if (!asksItself && foreign.length === 0) return
    if (asksItself && turn.consent.isNever) throw nobodyToAsk(call)
    if (!asksItself && !(await turn.consent.look())) throw consentNeeded(call, foreign)
    const question =
      typeof asksItself === 'string' && asksItself.slice(0, longestQuestion).toWellFormed()
    throw waitFor(calling, {
      toolCallId: call.id,
      toolName: call.name,
      args: call.args,
      ...(question && { question }),
      ...(foreign.length > 0 && { foreign, reason: reasonOf(foreign) }),
    })
  }
  if (decided.decision === 'reject')
    throw new RuntimeError('REJECTED', rejection(call, decided), {
      hint: 'Do not repeat the call; ask the user what to do instead.',
    })
  if (decided.decision === 'edit') {
    call.args = await validate({ ...call, args: decided.args }, entry.input)
    await checkCan(calling)
    calling.edited = `The user changed the arguments to ${JSON.stringify(decided.args)}, and then it was done:\n`
  }
}

/** How long the question of a tool may be, and a person's reason. */
const [longestQuestion, longestReason] = [4_000, 500]

/** What the model reads of a no: the person's reason too, where there is one. */
function rejection({ name }: PendingCall, { args }: Decision): string {
  const said = saidNo(name)
  const { reason } = fieldsIn(args)
  if (typeof reason !== 'string' || reason.trim() === '') return `${said}.`
  return `${said}: ${JSON.stringify(reason.slice(0, longestReason).toWellFormed())}.`
}

/** Whether the tool itself asks for a person's consent, whatever the turn has read; the sentence by which it asks, where it has one. */
async function asksOfItself(calling: Calling): Promise<boolean | string> {
  const { entry, call, turn } = calling
  const { tool, record } = entry
  if (!record || typeof tool?.approve !== 'function') return tool?.approve === true
  await turn.consent.look() // so that the `ctx.approvals` of `approve` knows of sockets at other replicas
  const asks = tool.approve(call.args, turnContext(record, turn, call))
  if (!(asks instanceof Promise) || entry.timeoutMs === undefined) return asks
  return await inTime(calling, entry.timeoutMs, () => asks, undecided)
}

/**
 * The sources whose words may have led the model to this call. A reading call has none. For a call of the page's own tools
 * the words of the page do not count: the page could have carried out the call without the model.
 */
function foreignBehind({ entry, turn, site }: Calling): readonly ForeignSource[] {
  if (entry.effect === 'read' || entry.client?.effect === 'read') return []
  const sources = turn.consent.behind(site.within)
  return entry.client ? sources.filter(({ kind }) => kind !== 'page') : sources
}

const nobodyToAsk = ({ name }: PendingCall): RuntimeError =>
  new RuntimeError(
    'CONSENT_NEEDED',
    `"${name}" was not run: a person has to approve it, and nobody can be asked here.`,
    {
      hint: 'Tell the user that this needs a client that shows approvals. Do not repeat the call.',
    },
  )

const consentNeeded = ({ name }: PendingCall, sources: readonly ForeignSource[]): RuntimeError =>
  new RuntimeError(
    'CONSENT_NEEDED',
    `"${name}" was not run: this turn has read words of others (${sourcesText(sources)}), which may be what asks for it.`,
    {
      hint: 'Tell the user what you are about to do, with the details, and wait for their next message. Until then do not repeat the call.',
    },
  )

/** Marks a call as one that waits for a person. The caller throws the error that this returns, so that the layers end. */
export function waitFor(calling: Calling, waits: WaitingCall): RuntimeError {
  calling.waits = waits
  return new RuntimeError('WAITING', `"${waits.toolName}" waits for a person's consent.`)
}

/** Marks a write before it starts and when it is done. A write that was done before is answered from its mark. */
async function atMostOnce(calling: Calling, run: () => Promise<unknown>): Promise<unknown> {
  const { call, entry, turn, site } = calling
  const { effects } = site
  if (!effects) return await run()
  const marked = await ofTheRun(calling, async () => {
    await site.recorded?.()
    turn.signal.throwIfAborted()
    return await effects.begin(call.id, call.name)
  })
  if (marked.state === 'unknown' && !entry.rejoin && !entry.tool?.repeatable)
    throw new RuntimeError(
      'OUTCOME_UNKNOWN',
      `"${call.name}" was interrupted, outcome unknown: it may have happened or not.`,
      { hint: 'Do not repeat the call. Find out with a reading tool, or tell the user.' },
    )
  if (marked.state === 'done') {
    calling.begun = true
    if (marked.failed) throw recordedError(marked.content)
    return recordedValue(marked.content)
  }

  const finish = (content: string, failed: boolean) =>
    ofTheRun(calling, () => effects.finish(call.id, content, failed))
  let value: unknown
  let content: string
  try {
    const rejoin = marked.state === 'unknown' ? entry.rejoin : undefined
    if (rejoin) calling.begun = true
    value = await (rejoin ? rejoin(calling) : run())
    const told = await contentOfCall(calling, value)
    content = told.written ?? told.content
  } catch (thrown) {
    const error = asToolError(call.name, thrown, entry.record, turn)
    // A write that was stopped in the middle may have happened all the same, so its mark stays unfinished.
    if (!turn.signal.aborted) await finish(explained(error), true)
    throw error
  }
  if (!turn.signal.aborted) await finish(content, false)
  return value
}

/** Parses a call's arguments, or throws an error that tells the model what is wrong with each. */
export async function validate(call: ToolCall | PendingCall, schema: Schema): Promise<unknown> {
  if (typeof call.args === 'string')
    throw new RuntimeError(
      'INVALID_INPUT',
      `The arguments of "${call.name}" are not JSON: ${jsonFault(call.args)}`,
      { hint: 'Call the tool again with one JSON object.' },
    )
  const parsed = await z.safeParseAsync(schema, call.args ?? {})
  if (parsed.success) return parsed.data
  const faults = faultsOf(parsed.error)
  throw new RuntimeError(
    'INVALID_INPUT',
    `The arguments of "${call.name}" do not fit: ${faultText(faults)}`,
    { hint: 'Correct the arguments and call the tool again.', details: faults },
  )
}

function jsonFault(text: string): string {
  try {
    JSON.parse(text)
    return nestsTooDeep(text)
      ? `they nest deeper than ${maxDepth} levels`
      : 'they are text, not an object'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Turns what a tool threw into a RuntimeError. The log gets the cause of an unexpected error, the model does not. */
export function asToolError(
  tool: string,
  thrown: unknown,
  record: PluginRecord | undefined,
  turn: Turn,
): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  if (turn.signal.aborted || (thrown instanceof Error && thrown.name === 'AbortError'))
    return new RuntimeError(
      'ABORTED',
      `"${tool}" was stopped before it ended; its outcome is unknown.`,
      {
        cause: thrown,
      },
    )
  record?.base?.log.error(
    { err: thrown, tool, requestId: turn.requestId },
    `The tool "${tool}" failed`,
  )
  return new RuntimeError('INTERNAL', `The tool "${tool}" failed.`, {
    hint: 'Tell the user that the tool did not work; the log has the cause.',
    cause: thrown,
  })
}
