import type { Code } from '../../error-codes.ts'
import { user, tools, type ContractCheck, type Stage } from './check.ts'
import { codeOf, usageFindings, usageIn } from './judge.ts'
import type { ContractAnswer } from './scene.ts'

/** More than any model tries. */
const always = 20
const later = { times: always, retryAfter: 0 }

/** A failure of the provider, and the codes that the model may give for it. */
interface Fault {
  readonly what: string
  readonly answers: readonly ContractAnswer[]
  readonly codes: readonly Code[]
}

const faults: readonly Fault[] = [
  { what: 'a wrong key', answers: [{ status: 401 }], codes: ['MODEL_UNAUTHORIZED'] },
  { what: 'an unknown model', answers: [{ status: 404 }], codes: ['MODEL_NOT_FOUND'] },
  {
    what: 'no credit',
    answers: [{ status: 429, why: 'quota', ...later }],
    codes: ['MODEL_QUOTA_EXHAUSTED'],
  },
  { what: 'a bad request', answers: [{ status: 400 }], codes: ['MODEL_BAD_REQUEST'] },
  {
    what: 'too long a conversation',
    answers: [{ status: 400, why: 'context' }],
    codes: ['MODEL_CONTEXT_TOO_LONG'],
  },
  {
    what: 'refused content',
    answers: [{ status: 400, why: 'content' }],
    codes: ['MODEL_REFUSED'],
  },
  {
    what: 'too many requests',
    answers: [{ status: 429, ...later }],
    codes: ['MODEL_RATE_LIMITED'],
  },
  { what: 'a fault of its own', answers: [{ status: 500, ...later }], codes: ['MODEL_FAILED'] },
  { what: 'too much to do', answers: [{ status: 503, ...later }], codes: ['MODEL_OVERLOADED'] },
  {
    what: 'a page in place of an answer',
    answers: [{ status: 200, body: '<!doctype html><title>Welcome</title>', times: always }],
    codes: ['MODEL_ANSWER_INVALID', 'MODEL_NOT_FOUND'],
  },
]

/** What a provider fails with has its code, so that the runtime knows what to do. */
export const faultCodes: ContractCheck = {
  name: 'faults by their codes',
  calls: faults.length,
  staged: true,
  async run(stage) {
    for (const { what, answers, codes } of faults) await judge(stage, what, answers, codes)
  },
}

async function judge(
  stage: Stage,
  what: string,
  answers: readonly ContractAnswer[],
  codes: readonly Code[],
): Promise<void> {
  const model = await stage.openOr(answers, what)
  if (!model) return
  const { error, reply } = await stage.ask(model, [user('Hello.')])
  if (error === undefined)
    stage.find(`The model answers "${reply.content.slice(0, 100)}" where its provider has ${what}.`)
  else if (!codes.some((code) => code === codeOf(error)))
    stage.find(
      `The model fails with "${stage.told(error)}" where its provider has ${what}: ${codes.join(' or ')} is the code.`,
    )
}

/** After the first word there is no second answer. */
export const brokenStream: ContractCheck = {
  name: 'a broken answer',
  calls: 2,
  staged: true,
  async run(stage) {
    const ends = [
      ['breaks off', 'break', ['MODEL_STREAM_BROKEN']],
      [
        'ends with an error',
        { error: 'Something went wrong.' },
        ['MODEL_FAILED', 'MODEL_OVERLOADED', 'MODEL_STREAM_BROKEN'],
      ],
    ] as const
    for (const [what, then, codes] of ends) {
      const model = await stage.open([{ text: 'One two', then }, { text: 'Three four' }], what)
      const { error, reply } = await stage.ask(model, [user('Count.')])
      if (error === undefined)
        stage.find(`The model takes an answer for whole that ${what} after its first words.`)
      else if (!codes.some((code) => code === codeOf(error)))
        stage.find(
          `The model fails with "${stage.told(error)}" where an answer ${what}: ${codes.join(' or ')} is the code.`,
        )
      if (reply.content !== 'One two')
        stage.find(`Of an answer that ${what} after "One two" the model says "${reply.content}".`)
    }
  },
}

/** What is no answer of a model fails by a code, or is told as it is; it never breaks the reader. */
export const strangeAnswers: ContractCheck = {
  name: 'strange answers',
  calls: 4,
  staged: true,
  async run(stage) {
    const usage = { inputTokens: -5, outputTokens: -1 }
    const less = [
      { inputTokens: 100, outputTokens: 20 },
      { inputTokens: 50, outputTokens: 10 },
    ]
    const call = { name: 'contract_note', args: { word: 'red' } }
    const strange: readonly (readonly [string, ContractAnswer])[] = [
      ['a call without a name', { calls: [{ name: null, args: { word: 'red' } }] }],
      ['a usage below zero', { text: 'Hello.', usage }],
      ['a usage that shrinks', { text: 'Hello.', usage: less }],
      ['5 MB of its own data', { reasoning: 'Well.', calls: [call], signatureBytes: 5_000_000 }],
    ]
    for (const [what, answer] of strange) {
      const model = await stage.open([answer, answer, answer, answer], what)
      const { error, deltas } = await stage.ask(model, [user('Hello.')], { tools })
      const usage = usageIn(deltas)
      if (usage) stage.find(...usageFindings(usage).map((each) => `With ${what}: ${each}`))
      if (error !== undefined && !codeOf(error).startsWith('MODEL_'))
        stage.find(`The model breaks at ${what} (${stage.told(error)}).`)
    }
  },
}
