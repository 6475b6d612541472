import { z } from 'zod'
import { RuntimeError, type Fault } from '#core'
import type { Actor } from '../rights/actor.ts'
import { refused } from '../refusal.ts'
import { entityId, name, record, wants, wantsOneOf } from '../wants.ts'
import { ExpressionCheck, valuesNamedIn } from './expression.ts'

/** What a rule decides: a verdict, a person, or the agent. */
const decisions = ['approve', 'reject', 'ask', 'agent'] as const
const aDecision = `one of ${decisions.join(', ')}`
const decision = z.enum(decisions, wants(aDecision))
const anExpression = 'a value or { operator: [..] }'
const expression = z.union([z.string(), z.number(), z.boolean(), record(anExpression)])
const because = z.string(wants('a sentence')).min(1).max(500, wants('at most 500 characters'))
const named = z
  .record(z.string().regex(/^[A-Za-z_]\w{0,63}$/, wants('a name')), expression)
  .refine((all) => Object.keys(all).length <= 50, 'give at most 50 values')

/** How claims of a protocol are evaluated without a hand. */
export const evaluationSpec = z.strictObject(
  {
    values: named.optional().describe('Expressions by their names, which rules and others name'),
    rules: z
      .array(
        z.strictObject({ when: expression, then: decision, because }),
        wants('a list of rules: { when, then, because }'),
      )
      .min(1)
      .max(50, wants('at most 50 rules'))
      .optional()
      .describe('The first rule whose condition holds decides'),
    otherwise: decision.optional().describe('Where no rule holds; default: agent, or ask'),
    agent: z
      .strictObject({
        instructions: z.string().min(1).max(8000, wants('at most 8000 characters')),
        tools: z.array(name(100, 'the name of a tool')).max(20).optional(),
        model: name(200, 'the name of a model').optional(),
      })
      .optional()
      .describe('What a turn of the agent is told, which ends with a verdict'),
    mints: entityId('the DID of a protocol of credits')
      .optional()
      .describe('The protocol whose credit an approved claim becomes'),
  },
  wants('an object: { values?, rules?, otherwise?, agent?, mints? }'),
)
/** How claims of a protocol are evaluated without a hand. */
export type EvaluationSpec = z.output<typeof evaluationSpec>

const aFraction = 'a number of at least 0 and below 1'
const fraction = z.number(wants(aFraction)).min(0, wants(aFraction)).lt(1, wants(aFraction))

/** How a credit is made of an approved claim. */
export const mintingSpec = z.strictObject(
  {
    unit: name(200, 'what one credit stands for'),
    type: name(100, 'the type of the credits, such as "CarbonCreditEntity"'),
    property: name(100, 'the property that holds the quantity'),
    quantity: expression.describe('The quantity before imprecision is factored in'),
    digits: z
      .number()
      .int()
      .min(0)
      .max(12)
      .optional()
      .describe('Digits kept, rounded down; default 6'),
    values: named.optional(),
    imprecision: z
      .union(
        [
          fraction,
          z.strictObject({
            role: name(100, 'the role of the edge from the project to the asset'),
            otherwise: fraction,
          }),
        ],
        wantsOneOf('the share that imprecision takes, or { role, otherwise }'),
      )
      .describe(
        'The share that imprecision takes; or the role of the edge by which the project of the asset is found',
      ),
    properties: z.record(z.string(), expression).optional(),
    role: name(100, 'the role of the edge from the credit to the asset').optional(),
  },
  wants('true, a text, or { unit, type, property, quantity, imprecision }'),
)
/** How a credit is made of an approved claim. */
export type MintingSpec = z.output<typeof mintingSpec>

/** An evaluation as a version of a protocol keeps it: with the name of the key that stands behind its verdicts. */
export interface DeclaredEvaluation extends EvaluationSpec {
  readonly by: string
}

interface Declaring {
  readonly evaluation?: EvaluationSpec
  readonly mints?: true | string | MintingSpec
}

/** Refuses what speaks for the operator from anybody else: this oracle signs what it approves. */
export function mustStandBehind(actor: Actor, { evaluation, mints }: Declaring): void {
  const path = evaluation ? 'evaluation' : typeof mints === 'object' ? 'mints' : undefined
  if (path === undefined || actor.did === undefined) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} cannot declare "${path}" of a protocol.`, {
    hint: 'Ask the operator, who declares it with an API key: this oracle signs what comes of it.',
    details: { path },
  })
}

/** Refuses rules that name what is not there, need themselves, or are too large. */
export function checkEvaluation(
  { evaluation, mints }: Declaring,
  properties: Readonly<Record<string, unknown>>,
): void {
  const faults: Fault[] = []
  if (evaluation) checkRules(evaluation, Object.keys(properties), faults)
  if (typeof mints === 'object') checkMinting(mints, Object.keys(properties), faults)
  if (faults.length > 0)
    throw refused(faults, 'The language of rules stands in docs/registry.md, "Evaluation".')
}

function checkRules(
  { values = {}, rules = [], otherwise, agent }: EvaluationSpec,
  claim: readonly string[],
  faults: Fault[],
): void {
  const names = { roots: { claim, asset: undefined, values: Object.keys(values) } }
  const check = new ExpressionCheck(names, faults)
  checkValues(values, check, 'evaluation.values', faults)
  for (const [at, rule] of rules.entries()) {
    check.check(rule.when, `evaluation.rules.${at}.when`)
    if (rule.then === 'agent' && !agent) faults.push(withoutAgent(`evaluation.rules.${at}.then`))
  }
  if (otherwise === 'agent' && !agent) faults.push(withoutAgent('evaluation.otherwise'))
  if (rules.length === 0 && !agent)
    faults.push({ path: 'evaluation', message: 'give rules, an agent, or both' })
}

const withoutAgent = (path: string): Fault => ({
  path,
  message: '"agent" decides nothing, because the evaluation has no agent',
})

function checkMinting(mints: MintingSpec, own: readonly string[], faults: Fault[]): void {
  const { values = {}, quantity, properties = {}, property } = mints
  // The claim follows another protocol, so that its properties are known only when one is minted.
  const names = { roots: { claim: undefined, asset: undefined, values: Object.keys(values) } }
  const check = new ExpressionCheck(names, faults)
  checkValues(values, check, 'mints.values', faults)
  check.check(quantity, 'mints.quantity')
  for (const [name, one] of Object.entries(properties)) check.check(one, `mints.properties.${name}`)
  for (const [name, path] of [
    [property, 'mints.property'] as const,
    ...Object.keys(properties).map((name) => [name, `mints.properties.${name}`] as const),
  ])
    if (!own.includes(name))
      faults.push({ path, message: `the protocol has no property "${name}"` })
}

function checkValues(
  values: Readonly<Record<string, unknown>>,
  check: ExpressionCheck,
  path: string,
  faults: Fault[],
): void {
  const needs = new Map(
    Object.entries(values).map(([name, expression]) => {
      check.check(expression, `${path}.${name}`)
      return [name, valuesNamedIn(expression)]
    }),
  )
  const settled = new Set<string>()
  const visit = (name: string, way: readonly string[]): void => {
    if (settled.has(name) || faults.length >= 20) return
    if (way.includes(name)) {
      const loop = [...way.slice(way.indexOf(name)), name].join(' needs ')
      faults.push({ path: `${path}.${name}`, message: `it loops: ${loop}` })
      return
    }
    for (const other of needs.get(name) ?? []) visit(other, [...way, name])
    settled.add(name)
  }
  for (const name of needs.keys()) visit(name, [])
}
