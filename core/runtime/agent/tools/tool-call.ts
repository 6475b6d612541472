import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import { faultsOf, faultText } from '../../../manifest/faults.ts'
import { notGranted } from '../../auth/grants/rights.ts'
import type { PendingCall, Schema, ToolCall } from '../../../plugin.ts'
import type { Facts } from '../../audit/line.ts'
import type { AuditCall } from './audit-call.ts'
import { twiceIfTransient, type RepetitionGuard } from '../turn/guards.ts'
import { maxDepth, nestsTooDeep } from '../../base/safe-json.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type { Decision, Effects, ForeignSource, WaitingCall } from '../../turns/run.ts'
import { reasonOf, sourcesText } from '../turn/consent.ts'
import { contentOf, explained, recordedError } from './tool-content.ts'
import type { ToolEntry } from './entry.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { turnContext, type Turn } from '../turn/turn.ts'

/** What surrounds a call in a run. A call in a test's thread has none of it. */
export interface CallSite {
  readonly effects?: Effects
  /** Resolves when the call itself is written down; no write begins before. */
  readonly recorded?: () => Promise<void>
  /** What a person decided about a call. */
  readonly decisionOn?: (toolCallId: string) => Decision | undefined
  /** The call of the sub-agent whose loop this is. */
  readonly within?: string
  readonly guard?: RepetitionGuard
  /** The tools that the client brought along for this turn. */
  readonly clientTools?: ReadonlyMap<string, ToolEntry>
  /** The only tools within reach: those of a sub-agent. */
  readonly only?: ReadonlySet<string>
  /** Writes the audit line of a call. */
  readonly audit?: AuditCall
  /** Hears that the user's delegation did not suffice, and whether that is because it was revoked meanwhile. */
  readonly onDenied?: (isRevoked: boolean) => void
  /** Whether the delegation that the turn began with is revoked by now. */
  readonly isRevoked?: () => boolean | Promise<boolean>
  /** Runs the engine for a sub-agent. */
  readonly delegate?: (delegation: Delegation, calling: Calling) => Promise<unknown>
}

/** A task for a sub-agent. */
export interface Delegation {
  readonly task: string
  readonly prompt: string
  readonly tools: readonly string[]
  readonly model: string | undefined
}

/** One call on its way through the onion. */
export interface Calling {
  readonly call: PendingCall
  readonly entry: ToolEntry
  readonly turn: Turn
  readonly site: CallSite
  /** What its handler adds to the audit line. */
  readonly facts: Facts
  /** A person is to be asked. The call stands here, so that no layer of the onion can hide it. */
  waits?: WaitingCall
  /** The run cannot go on: the database failed, or another process has it. */
  fault?: { readonly error: unknown }
  /** What the model is told when a person changed its arguments. */
  edited?: string
  /** The tool itself was begun: what comes of the call from here on, a refusal too, is in its words. */
  begun?: true
  /** The result holds other people's words though the tool's own do not: a sub-agent has read some. */
  foreign?: true
}

/** The core of the onion: may the user, does a person agree, did it happen before; then the tool itself. */
export async function execute(calling: Calling): Promise<unknown> {
  await checkCan(calling)
  await seekApproval(calling)
  const { entry, turn } = calling
  const run = async () => {
    underWay(`tool ${calling.call.name} of ${entry.record?.name ?? 'the kernel'}`)
    calling.begun = true
    const value = await entry.run(calling.call.args, calling)
    return entry.tool?.output ? await z.parseAsync(entry.tool.output, value) : value
  }
  // A sub-agent is not tried twice: it would do again what it has done, because only the next process finds its steps.
  if (entry.effect === 'read')
    return entry.tool ? await twiceIfTransient(run, turn.signal) : await run()
  return await atMostOnce(calling, run)
}

async function checkCan({ entry: { tool, record }, call, turn, site }: Calling): Promise<void> {
  if (!record) return
  // Also for tools that ask in their own code: what the operator took back during the turn is gone.
  await turn.rights?.refresh(turn.user.did)
  if (!tool?.can) return
  const { can, with: resourceOf } = tool.can
  const resource = resourceOf?.(call.args, turnContext(record, turn, call.id)) ?? turn.user.did
  const may = turn.user.can(can, resource)
  const byGrant =
    resource === turn.rights?.oracleDid && turn.rights.granted(turn.user.did, can) === true
  // A turn can outlive the delegation that it began with.
  const isRevoked = may && !byGrant && (await site.isRevoked?.()) === true
  if (may && !isRevoked) return
  // The user's own delegation cannot help here, so nobody is asked for one.
  if (resource === turn.rights?.oracleDid)
    throw notGranted(turn.user, can, resource, `"${call.name}"`)
  site.onDenied?.(isRevoked)
  throw new RuntimeError(
    'FORBIDDEN',
    `The user's delegation does not grant "${can}" on ${resource}.`,
    {
      hint: 'Ask the user to authorise it, then try again.',
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
  // A call in a test's thread has nobody to ask, and what is harmless needs nobody.
  if (!site.decisionOn || approve === false) return
  const decided = site.decisionOn(call.id)
  if (!decided) {
    const foreign = foreignBehind(calling)
    const asksItself = await asksOfItself(calling)
    if (!asksItself && foreign.length === 0) return
    if (!asksItself && !(await turn.consent.look())) throw consentNeeded(call, foreign)
    const waits = { toolCallId: call.id, toolName: call.name, args: call.args }
    if (foreign.length === 0) throw waitFor(calling, waits)
    throw waitFor(calling, { ...waits, foreign, reason: reasonOf(foreign) })
  }
  if (decided.decision === 'reject')
    throw new RuntimeError('REJECTED', `The user was asked about "${call.name}" and said no.`, {
      hint: 'Do not try it again; ask what they would like instead.',
    })
  if (decided.decision === 'edit') {
    call.args = await validate({ ...call, args: decided.args }, entry.input)
    await checkCan(calling)
    calling.edited = `The user changed the arguments to ${JSON.stringify(decided.args)}, and then it was done:\n`
  }
}

/** Whether the tool wants a person asked, whatever the turn has read. */
async function asksOfItself({ entry, call, turn }: Calling): Promise<boolean> {
  const { tool, record } = entry
  if (!record || typeof tool?.approve !== 'function') return tool?.approve === true
  await turn.consent.look() // so that its `ctx.approvals` knows of sockets at other replicas
  return tool.approve(call.args, turnContext(record, turn, call.id))
}

/**
 * What of others a call may have been made for. A reading call is not judged; a call of the page's own tools is not
 * judged by what the page itself said: it could have done the same without being told.
 */
function foreignBehind({ entry, turn, site }: Calling): readonly ForeignSource[] {
  if (entry.effect === 'read' || entry.client?.effect === 'read') return []
  const sources = turn.consent.behind(site.within)
  return entry.client ? sources.filter(({ kind }) => kind !== 'page') : sources
}

const consentNeeded = ({ name }: PendingCall, sources: readonly ForeignSource[]): RuntimeError =>
  new RuntimeError(
    'CONSENT_NEEDED',
    `"${name}" was not run: this turn has read words of others (${sourcesText(sources)}), which may be what asks for it.`,
    {
      hint: 'Tell the user what you are about to do, with the details, and wait for their next message. Do not try it again before.',
    },
  )

/** Marks a call as one that waits; what it returns is thrown, so that the layers around it end. */
export function waitFor(calling: Calling, waits: WaitingCall): RuntimeError {
  calling.waits = waits
  return new RuntimeError('WAITING', `"${waits.toolName}" waits for a person's consent.`)
}

/** Marks a write before it starts and when it is done. What was done is answered from the record. */
async function atMostOnce(calling: Calling, run: () => Promise<unknown>): Promise<unknown> {
  const { call, entry, turn, site } = calling
  const { effects } = site
  if (!effects) return await run()
  const marked = await ofTheRun(calling, async () => {
    await site.recorded?.()
    turn.signal.throwIfAborted()
    return await effects.begin(call.id, call.name)
  })
  if (marked.state === 'unknown' && !entry.rejoin)
    throw new RuntimeError(
      'OUTCOME_UNKNOWN',
      `"${call.name}" was interrupted, outcome unknown: it may have happened or not.`,
      { hint: 'Do not repeat it. Find out with a reading tool, or tell the user.' },
    )
  if (marked.state === 'done') {
    calling.begun = true
    if (marked.failed) throw recordedError(marked.content)
    return marked.content
  }

  const finish = (content: string, failed: boolean) =>
    ofTheRun(calling, () => effects.finish(call.id, content, failed))
  let value: unknown
  let content: string
  try {
    if (marked.state === 'unknown') calling.begun = true
    value = await (marked.state === 'unknown' ? entry.rejoin!(calling) : run())
    content = contentOf(value)
  } catch (thrown) {
    const error = asToolError(call.name, thrown, entry.record, turn)
    // A write that was stopped in the middle may have happened all the same: its mark stays as it is.
    if (!turn.signal.aborted) await finish(explained(error), true)
    throw error
  }
  if (!turn.signal.aborted) await finish(content, false)
  return value
}

/** Does work whose failure is the run's and not the tool's: the failure must not reach the model as a result. */
export async function ofTheRun<T>(calling: Calling, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!calling.turn.signal.aborted) calling.fault = { error }
    throw error
  }
}

/** Parses a call's arguments, or says to the model what is wrong with each. */
export async function validate(call: ToolCall | PendingCall, schema: Schema): Promise<unknown> {
  if (typeof call.args === 'string')
    throw new RuntimeError(
      'INVALID_INPUT',
      `The arguments of "${call.name}" are not JSON: ${jsonFault(call.args)}`,
      { hint: 'Send one JSON object and call it again.' },
    )
  const parsed = await z.safeParseAsync(schema, call.args ?? {})
  if (parsed.success) return parsed.data
  const faults = faultsOf(parsed.error)
  throw new RuntimeError(
    'INVALID_INPUT',
    `The arguments of "${call.name}" do not fit: ${faultText(faults)}`,
    { hint: 'Correct the arguments and call it again.', details: faults },
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

/** What a tool threw as an error of ours. A broken program is told to the log, not to the model. */
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
    hint: 'Tell the user that it did not work; the log has the cause.',
    cause: thrown,
  })
}
