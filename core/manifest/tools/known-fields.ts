import type { AnySubAgent, AnyTool, TurnTool, WrittenRoute } from '../../plugin.ts'
import { didYouMean, knownInstead } from '../did-you-mean.ts'

/** The names of the fields of a type: the compiler refuses one too many and one too few. */
const namesOf = <T>(fields: Record<keyof T, true>): readonly string[] => Object.keys(fields)

const inputAndOutput = { input: true, output: true } as const

/** The fields that a plugin may write in each of its entries. */
const known = {
  tool: namesOf<AnyTool>({
    ...inputAndOutput,
    description: true,
    effect: true,
    can: true,
    approve: true,
    foreign: true,
    timeoutMs: true,
    retry: true,
    repeatable: true,
    maxResultBytes: true,
    redact: true,
    limit: true,
    enabled: true,
    run: true,
  }),
  'tool of toolsFor': namesOf<TurnTool>({
    description: true,
    parameters: true,
    effect: true,
    foreign: true,
    approve: true,
    timeoutMs: true,
    run: true,
  }),
  'sub-agent': namesOf<AnySubAgent>({
    ...inputAndOutput,
    description: true,
    prompt: true,
    tools: true,
    borrow: true,
    model: true,
    maxCalls: true,
    timeoutMs: true,
  }),
  route: namesOf<WrittenRoute>({
    ...inputAndOutput,
    auth: true,
    limit: true,
    cors: true,
    body: true,
    verify: true,
    raw: true,
    summary: true,
    answers: true,
    can: true,
    signed: true,
    own: true,
    onInvalid: true,
    idempotent: true,
    onFault: true,
    onError: true,
    run: true,
  }),
}

/**
 * Each field of an entry that no such entry has, as a sentence that completes "the tool …", and a hint. Such a field is a
 * misspelt one: what was meant by it would not hold, which for `approve` or `auth` nobody may find out later.
 */
export function* unknownFields(
  kind: keyof typeof known,
  entry: object,
): Generator<readonly [message: string, hint: string, isMisspelt: boolean]> {
  const names = known[kind]
  for (const [field, value] of Object.entries(entry))
    if (value !== undefined && !names.includes(field)) {
      const message = `has "${field}", which is not a field of a ${kind}`
      yield [message, knownInstead(field, names), didYouMean(field, names) !== undefined]
    }
}
