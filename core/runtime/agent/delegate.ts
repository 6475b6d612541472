import type { AnySubAgent } from '../../plugin.ts'
import { quotingRule } from '../base/quote.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import type { JournalEntry, Run } from '../turns/run.ts'
import { underWay } from '../watchdog/under-way.ts'
import { today } from './ask/prompt.ts'
import type { TurnParts } from './agent-turn.ts'
import { goRound } from './loop.ts'
import { fittingOf } from './loop-window.ts'
import { StepLog, type TakeChanges } from './step-log.ts'
import type { EventOrigin, Narrator } from './tools/narrator.ts'
import { ofTheRun } from './tools/of-the-run.ts'
import { writes } from './tools/entry.ts'
import { Returning, returnResultName } from './tools/sub-agents.ts'
import { waitFor, type Calling, type CallSite, type Delegation } from './tools/tool-call.ts'
import { resultText } from './tools/tool-content.ts'
import type { Tools } from './tools/tools.ts'
import { RepetitionGuard } from './turn/guards.ts'
import { turnContext, type Turn } from './turn/turn.ts'
import { untilAborted } from '../base/until-aborted.ts'

/** How often a sub-agent calls its model that sets no number of its own. */
const usualCalls = 10

/** What a turn lends to its sub-agents. */
export interface Lent {
  readonly run: Run
  readonly past: readonly JournalEntry[]
  readonly parts: Pick<TurnParts, 'tools' | 'callModel' | 'loopLimits' | 'model' | 'window'>
  readonly narrator: Narrator
  readonly takeChanges: TakeChanges
  readonly site: CallSite
}

/**
 * Runs the loop for a sub-agent: the prompt, the tools, the time and the log are the sub-agent's, everything else is the
 * turn's. Returns the sub-agent's result.
 */
export async function delegate(
  { subAgent, record, args }: Delegation,
  calling: Calling,
  { run, past, parts, narrator, takeChanges, site }: Lent,
): Promise<unknown> {
  const { id, name } = calling.call
  const { tools, callModel, loopLimits } = parts
  const { output, model, maxCalls = usualCalls } = subAgent
  const prompt = await promptOf({ subAgent, record, args }, calling)
  const log = new StepLog(run.journal, past, takeChanges, id)
  const source: EventOrigin = {
    parentEventId: id,
    onComponent: (component) => log.rendered(component),
  }
  const watch = calling.turn.watch?.within(id)
  const turn: Turn = {
    ...calling.turn,
    watch,
    signal: calling.signal,
    model: model === undefined ? calling.turn.model : parts.model(model),
    calls: calling.turn.calls?.as('sub-agent', record?.name, watch),
    emit: (toolCallId) => narrator.emitOf(source, toolCallId),
  }
  const ending = output && new Returning(name, output)
  const only = toolsOf(subAgent, tools)
  if (ending) only.add(returnResultName)
  const turnTools = ending && new Map([[returnResultName, ending.entry]])
  const rules = [ending?.rule, quotingRule, today(run.request.timezone)]
    .filter(Boolean)
    .join('\n\n')
  const told = [
    ...(prompt ? [{ part: 'plugin', plugin: record.name, text: prompt } as const] : []),
    { part: 'kernel', text: rules } as const,
  ]
  const system = told.map(({ text }) => text).join('\n\n')
  const guard = new RepetitionGuard(log.messages)
  const end = await ofTheRun(calling, async () => {
    // After a crash the steps of the sub-agent are found by the id of this call, so the journal has to hold the call first.
    await calling.site.recorded?.()
    return await goRound({
      turn,
      model: turn.model,
      prompt: { text: () => system, told },
      specs: () => [...tools.specs(turn, only), ...(ending ? [ending.entry.spec] : [])],
      fitting: fittingOf(parts.window, {
        turn,
        before: [{ role: 'user', id, content: taskText(subAgent, args) }],
        log,
        narrator,
        isWrite: (tool) => writes(tools.entry(tool)),
      }),
      gauges: parts.window.gauges,
      log,
      tools,
      callModel,
      limits: { ...loopLimits, modelCalls: Math.min(maxCalls, loopLimits.modelCalls) },
      site: { ...site, only, guard, within: id, turnTools },
      narrator,
      hear: { text: () => undefined, reasoning: () => undefined },
      parentEventId: id,
      ending,
    })
  })
  if (log.messages.some((message) => message.role === 'tool' && message.foreign))
    calling.foreign = true
  switch (end.status) {
    case 'finished':
      await log.settled()
      if (ending) return await ending.value(log.messages)
      return end.content || 'The sub-agent ended without a word.'
    case 'failed':
      throw end.error
    case 'aborted':
      throw turn.signal.reason
    case 'waiting':
      throw waitFor(calling, end.waits)
  }
}

/** The prompt of a sub-agent for one call. A function that fails is a fault of the call, and the log has it. */
async function promptOf(
  { subAgent: { prompt }, record, args }: Delegation,
  { call: { id, name }, turn, facts, signal }: Calling,
): Promise<string> {
  if (typeof prompt === 'string') return prompt
  underWay(`prompt of ${name}`)
  const asked = Promise.resolve(prompt(args, turnContext(record, turn, { id, facts, signal })))
  const text: unknown = await untilAborted(signal, asked)
  if (typeof text !== 'string') throw new TypeError(`The prompt of "${name}" is not text.`)
  return text
}

/** What the sub-agent is told: the words of its task, or the JSON of an input of its own. */
function taskText({ input }: AnySubAgent, args: unknown): string {
  const isUsual = input === undefined && typeof args === 'object' && args !== null
  return isUsual && 'task' in args ? String(args.task) : resultText(args)
}

/** The names of the tools that a sub-agent may call: its plugin's, and those of other plugins that are in this app. */
function toolsOf({ tools = [], borrow = [] }: AnySubAgent, all: Tools): Set<string> {
  const names = new Set(tools)
  for (const [lender, tool] of borrow)
    // Where the app lacks the plugin, a tool of this name is another plugin's, which lends nothing here.
    if (all.entry(tool)?.record?.name === lender.name) names.add(tool)
  return names
}
