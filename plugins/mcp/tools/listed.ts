import { createHash } from 'node:crypto'

/** What a server says of a tool beside its schema. It is the server's word, and nobody has checked it. */
export interface Hints {
  readonly readOnly?: boolean
  readonly destructive?: boolean
}

/** A tool as a server lists it, bounded. */
export interface ListedTool {
  readonly name: string
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly hints: Hints
  /** Of all that the model and the kernel read of it: another hash is another tool. */
  readonly hash: string
}

/** What a call answered, as the protocol has it. */
export interface Result {
  readonly content?: unknown
  readonly structuredContent?: unknown
  readonly isError?: unknown
}

const mostTools = 200
const longestName = 200
const longestDescription = 2_000

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const bool = (value: unknown): boolean | undefined =>
  typeof value === 'boolean' ? value : undefined

/** The tools of a list. What is no tool is left out, and so is what is beyond 200. */
export function readTools(list: readonly unknown[]): ListedTool[] {
  return list.slice(0, mostTools).flatMap((each) => readTool(each) ?? [])
}

function readTool(each: unknown): ListedTool | undefined {
  if (!isObject(each) || typeof each.name !== 'string' || each.name === '') return undefined
  if (each.name.length > longestName) return undefined
  const said = typeof each.description === 'string' ? each.description : ''
  const schema = isObject(each.inputSchema) ? each.inputSchema : {}
  const hints = isObject(each.annotations) ? each.annotations : {}
  const { readOnlyHint, destructiveHint } = hints
  const hash = createHash('sha256')
    .update(JSON.stringify([each.name, said, schema, readOnlyHint, destructiveHint]))
    .digest('base64url')
    .slice(0, 22)
  return {
    name: each.name,
    description: cleaned(said).slice(0, longestDescription).toWellFormed() || each.name,
    parameters: { ...schema, type: 'object' },
    hints: { readOnly: bool(readOnlyHint), destructive: bool(destructiveHint) },
    hash,
  }
}

/** A text without what a terminal takes for commands, and without characters that nobody sees. */
export const cleaned = (text: string): string =>
  text
    // eslint-disable-next-line no-control-regex -- these are what is taken away
    .replaceAll(/\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?)/g, '')
    .replaceAll(
      /(?![\n\t])[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,
      '',
    )
