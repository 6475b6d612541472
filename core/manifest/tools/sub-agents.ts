import { RuntimeError } from '../../errors.ts'
import type { AnyDefinition, AnyPlugin, AnySubAgent, AnyTool } from '../../plugin.ts'
import { knownInstead } from '../did-you-mean.ts'
import { unknownFields } from './known-fields.ts'
import { requirementsOf, usesOf } from '../load-order.ts'
import { isSchema, isWhole, argumentsType, longestToolMs, shown } from './tools.ts'

/** A sentence that completes "the sub-agent …", and a hint. */
type Fault = readonly [message: string, hint?: string]

const mostCalls = 1000

/** Faults of a plugin's sub-agents. `tools` are the tools of the plugin. */
export function checkSubAgents(
  definition: AnyDefinition,
  tools: Readonly<Record<string, AnyTool>>,
): RuntimeError[] {
  const faults: RuntimeError[] = []
  for (const [name, subAgent] of Object.entries(definition.subAgents ?? {}))
    for (const [message, hint] of [
      ...shapeFaults(name, subAgent ?? {}),
      ...toolFaults(subAgent?.tools ?? [], tools),
      ...borrowFaults(definition, subAgent?.borrow ?? []),
    ])
      faults.push(invalid(definition.name, name, message, hint))
  return faults
}

/**
 * Faults of the tools that a plugin borrows from a plugin whose tools a function makes: their names are known once that
 * plugin is set up. `toolsOf` gives them, and undefined for a plugin that is not there.
 */
export function checkBorrowedMade(
  definition: AnyDefinition,
  toolsOf: (plugin: string) => Readonly<Record<string, AnyTool>> | undefined,
): RuntimeError[] {
  const faults: RuntimeError[] = []
  for (const [name, { borrow = [] }] of Object.entries(definition.subAgents ?? {}))
    for (const [lender, tool] of borrow) {
      if (typeof lender?.definition?.tools !== 'function') continue
      const tools = toolsOf(lender.name)
      const fault = tools && lacking(lender, tool, tools)
      if (fault) faults.push(invalid(definition.name, name, ...fault))
    }
  return faults
}

const invalid = (plugin: string, subAgent: string, message: string, hint?: string) =>
  new RuntimeError('SUBAGENT_INVALID', `Plugin ${plugin}: the sub-agent "${subAgent}" ${message}`, {
    hint,
  })

const callable = /^[a-zA-Z0-9_-]{1,59}$/

/** Faults of everything but the tools. Types cannot stop a plugin in plain JavaScript. */
function* shapeFaults(name: string, subAgent: Partial<AnySubAgent>): Generator<Fault> {
  const { description, prompt, input, output, maxCalls, timeoutMs } = subAgent
  for (const [message, hint] of unknownFields('sub-agent', subAgent)) yield [`${message}.`, hint]
  if (!callable.test(name))
    yield ['has a name that models cannot call.', 'Use at most 59 letters, digits and underscores.']
  if (typeof description !== 'string' || !description.trim())
    yield ['has no description.', 'Say in a sentence what it does and when to call it.']
  if (typeof prompt !== 'string' && typeof prompt !== 'function')
    yield ['has no prompt.', 'It is text, or a function of the input that returns text.']
  if (input !== undefined && !isSchema(input)) yield ['has an "input" that is no schema.']
  else if (input !== undefined && argumentsType(input) !== 'object')
    yield [
      'takes something other than an object.',
      'Models call it with an object: wrap it in z.object({ … }).',
    ]
  if (output !== undefined && !isSchema(output)) yield ['has an "output" that is no schema.']
  if (maxCalls !== undefined && !isWhole(maxCalls, 1, mostCalls))
    yield [
      `has a "maxCalls" of ${shown(maxCalls)}.`,
      'It is a whole number of calls of the model, from 1 to 1,000.',
    ]
  if (timeoutMs !== undefined && !isWhole(timeoutMs, 1, longestToolMs))
    yield [
      `has a "timeoutMs" of ${shown(timeoutMs)}.`,
      'It is a whole number of milliseconds from 1 to 3,600,000, which is an hour.',
    ]
}

function* toolFaults(
  listed: readonly string[],
  tools: Readonly<Record<string, AnyTool>>,
): Generator<Fault> {
  for (const tool of listed)
    if (!Object.hasOwn(tools, tool))
      yield [
        `lists the tool "${tool}", which the plugin does not have.`,
        knownInstead(tool, Object.keys(tools)),
      ]
}

function* borrowFaults(
  definition: AnyDefinition,
  borrow: NonNullable<AnySubAgent['borrow']>,
): Generator<Fault> {
  const self = { name: definition.name, definition }
  const peers = [...requirementsOf(self), ...usesOf(self)].flatMap((plugin) => plugin?.name ?? [])
  for (const entry of borrow) {
    const [lender, tool] = Array.isArray(entry) ? entry : []
    if (typeof tool !== 'string' || lender?.definition === undefined) {
      yield [
        `borrows ${typeof entry === 'string' ? shown(entry) : 'something'}, which is no pair of a plugin and the name of its tool.`,
        'Import the other plugin and write borrow: [[other, "name_of_its_tool"]].',
      ]
      continue
    }
    const { name } = lender
    if (!peers.includes(name))
      yield [
        `borrows "${tool}" of ${name}, which is neither in "requires" nor in "uses".`,
        `Add ${name} to "requires", or to "uses" when the app may lack it.`,
      ]
    if (lender.definition.visibility === 'silent')
      yield [
        `borrows "${tool}" of ${name}, which is silent: no agent may call its tools.`,
        'Call the plugin itself, by `plugins` in a tool of yours.',
      ]
    const { tools = {} } = lender.definition
    const fault = typeof tools === 'object' && lacking(lender, tool, tools)
    if (fault) yield fault
  }
}

function lacking(
  { name, definition }: AnyPlugin,
  tool: string,
  tools: Readonly<Record<string, AnyTool>>,
): Fault | undefined {
  if (Object.hasOwn(tools, tool)) return undefined
  const isSubAgent =
    tool.startsWith('call_') && Object.hasOwn(definition.subAgents ?? {}, tool.slice(5))
  return isSubAgent
    ? [`borrows "${tool}" of ${name}, which is a sub-agent.`, 'Only tools can be borrowed.']
    : [
        `borrows "${tool}" of ${name}, which has no such tool.`,
        knownInstead(tool, Object.keys(tools)),
      ]
}
