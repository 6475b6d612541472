import { RuntimeError } from '#core'
import { nextDay } from './day.ts'
import type { Spent } from './under-way.ts'

/** What a user and a turn may use up; 0 is no limit. */
export interface Budgets {
  readonly tokensPerDay: number
  /** US dollars. */
  readonly costPerDay: number
  readonly tokensPerTurn: number
}

/** A limit of a day as clients are told of it. */
export interface Budget {
  readonly limit: number
  readonly used: number
  readonly resetsAt: string
}

const counted = (count: number) => count.toLocaleString('en-US')

/** The allowance of tokens that there is for a day; undefined without one. */
export function tokenBudget(
  { tokensPerDay }: Budgets,
  spent: Spent,
  now: Date,
): Budget | undefined {
  if (tokensPerDay === 0) return undefined
  return { limit: tokensPerDay, used: spent.tokens, resetsAt: nextDay(now).toISOString() }
}

/** The allowance of dollars that there is for a day; undefined without one. */
export function costBudget({ costPerDay }: Budgets, spent: Spent, now: Date): Budget | undefined {
  if (costPerDay === 0) return undefined
  return { limit: costPerDay, used: spent.cost / 1e9, resetsAt: nextDay(now).toISOString() }
}

/** Refuses a turn of a user who has used up what there is for a day. */
export function demandBudget(budgets: Budgets, spent: Spent, now: Date): void {
  const tokens = tokenBudget(budgets, spent, now)
  if (tokens && tokens.used >= tokens.limit)
    throw usedUp(`${counted(tokens.limit)} tokens`, tokens, now)
  const cost = costBudget(budgets, spent, now)
  if (cost && cost.used >= cost.limit) throw usedUp(`$${cost.limit}`, cost, now)
}

function usedUp(allowance: string, budget: Budget, now: Date): RuntimeError {
  const seconds = Math.ceil((Date.parse(budget.resetsAt) - now.getTime()) / 1000)
  return new RuntimeError(
    'BUDGET_SPENT',
    `Today's allowance of ${allowance} is used up; it begins anew at 00:00 UTC.`,
    {
      headers: { 'Retry-After': String(Math.max(1, seconds)) },
      hint: 'What was said stays there to read.',
      details: budget,
    },
  )
}

/** Refuses a further call of a model in a turn that has used up what there is for a turn. */
export function demandTurn({ tokensPerTurn }: Budgets, used: number): void {
  if (tokensPerTurn === 0 || used < tokensPerTurn) return
  throw new RuntimeError(
    'BUDGET_SPENT',
    `This turn has used up its allowance of ${counted(tokensPerTurn)} tokens.`,
    {
      hint: 'Ask for less at once, or ask the rest in a new message.',
      details: { limit: tokensPerTurn, used },
    },
  )
}
